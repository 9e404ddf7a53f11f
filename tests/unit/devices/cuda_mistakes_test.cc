// What the double of the CUDA driver finds: each mistake that a user of CUDA's can make is made once, by hand, in a way
// that would go well by luck; and the same done rightly is no mistake.
#include <gtest/gtest.h>
#include <roda/abi/types.h>

#include <string>
#include <thread>

#include "plugins/base/cuda/driver.h"
#include "plugins/base/cuda/types.h"
#include "plugins/devices/cuda/kernel_arguments.h"
#include "tests/doubles/cuda/double.h"

namespace roda::cuda {

#define X(member, symbol, parameters) extern "C" Result symbol parameters;
RODA_CUDA_FUNCTIONS(X)
#undef X
extern "C" Result cuStreamBeginCapture_v2(Stream stream, int mode);
extern "C" Result cuStreamEndCapture(Stream stream, void** graph);
extern "C" Result cuLaunchHostFunc(Stream stream, HostFunction function, void* argument);

namespace {

constexpr std::size_t kBytes = 1000;
constexpr int kInvalidHandle = 400, kInvalidated = 901, kUnjoined = 904, kIsolation = 905, kCapturedEvent = 907;

// Two streams and two arrays of one device, and a stream of another; all that is on them is over at the end.
class Mistakes : public testing::Test {
 protected:
  void SetUp() override {
    roda_cuda_double_keep_mistakes(1);
    cuInit(0);
    cuDevicePrimaryCtxRetain(&other_context_, 1);
    cuDevicePrimaryCtxRetain(&context_, 0);
    cuCtxPushCurrent_v2(other_context_);
    cuStreamCreateWithPriority(&elsewhere_, kStreamNonBlocking, 0);
    cuMemAlloc_v2(&far_, kBytes);
    cuCtxPushCurrent_v2(context_);
    for (Stream* stream : {&one_, &two_}) cuStreamCreateWithPriority(stream, kStreamNonBlocking, 0);
    for (Event* event : {&event_, &before_}) cuEventCreate(event, kEventDisableTiming);
    for (Address* address : {&a_, &b_}) cuMemAlloc_v2(address, kBytes);
  }
  void TearDown() override {
    EXPECT_EQ(found(), "");
    for (Stream stream : {one_, two_, elsewhere_}) cuStreamDestroy_v2(stream);
    for (Event event : {event_, before_}) cuEventDestroy_v2(event);
    Context context = nullptr;
    while (cuCtxPopCurrent_v2(&context) == kSuccess) {
    }
  }
  // The last mistake, "" for none, when all is over.
  std::string found() {
    for (Stream stream : {one_, two_, elsewhere_}) cuStreamSynchronize(stream);
    char last[400] = {};
    return roda_cuda_double_mistakes(last, sizeof last) > 0 ? last : "";
  }
  void expect(const char* part) {
    const std::string text = found();
    EXPECT_NE(text.find(part), std::string::npos) << "'" << text << "'";
  }
  static void copy(Address to, Address from, Stream stream) { cuMemcpyAsync(to, from, kBytes, stream); }
  static void wait_by_host(Event event) {
    while (cuEventQuery(event) == kNotReady) std::this_thread::yield();
  }

  Context context_ = nullptr, other_context_ = nullptr;
  Stream one_ = nullptr, two_ = nullptr, elsewhere_ = nullptr;
  Event event_ = nullptr, before_ = nullptr;
  Address a_ = 0, b_ = 0, far_ = 0;
};

TEST_F(Mistakes, NoneWhereEventsAndTheHostOrder) {
  copy(a_, b_, one_);
  cuEventRecord(event_, one_);
  cuStreamWaitEvent(two_, event_, 0);
  copy(b_, a_, two_);
  cuEventRecord(event_, two_);
  wait_by_host(event_);
  copy(a_, b_, one_);
  cuStreamSynchronize(one_);
  EXPECT_EQ(cuMemFree_v2(a_), kSuccess);
  EXPECT_EQ(found(), "");
}

TEST_F(Mistakes, AMissingWait) {
  copy(a_, b_, one_);
  copy(far_, a_, two_);
  expect("nothing makes it wait for a copy on stream");
}

TEST_F(Mistakes, AMissingWaitOfAWriterForAReader) {
  copy(far_, a_, one_);
  copy(a_, b_, two_);
  expect("a copy on stream");
}

TEST_F(Mistakes, AnEventThatIsRecordedTooEarly) {
  cuEventRecord(event_, one_);
  copy(a_, b_, one_);
  cuStreamWaitEvent(two_, event_, 0);
  copy(far_, a_, two_);
  expect("nothing makes it wait");
}

TEST_F(Mistakes, FreedWhileInUse) {
  copy(a_, b_, one_);
  cuMemFree_v2(a_);
  EXPECT_NE(found(), "");
}

TEST_F(Mistakes, UsedAfterItWasFreed) {
  cuMemFree_v2(a_);
  copy(b_, a_, one_);
  expect("was given back");
}

TEST_F(Mistakes, BeyondTheEnd) {
  cuMemcpyAsync(a_ + 1, b_, kBytes, one_);
  expect("goes beyond it");
}

TEST_F(Mistakes, AProgramThatCountsOnTheEnginesWait) {
  copy(a_, b_, one_);
  cuStreamSynchronize(one_);  // the engine's
  roda_cuda_double_set_program(1);
  copy(far_, a_, two_);
  roda_cuda_double_set_program(0);
  expect("nothing makes it wait");
  roda_cuda_double_join();
  roda_cuda_double_set_program(1);
  copy(b_, a_, two_);
  roda_cuda_double_set_program(0);
  EXPECT_EQ(found(), "");
}

TEST_F(Mistakes, AKernelOnMemoryOfAnotherDevice) {
  Module module = nullptr;
  Function scale = nullptr;
  cuModuleLoadData(&module, "");
  cuModuleGetFunction(&scale, module, "roda_scale");
  cuda_device::ScaleArguments arguments{far_, 10, RODA_FLOAT32, 0, 2.0};
  void* parameters[] = {&arguments};
  EXPECT_EQ(cuLaunchKernel(scale, 1, 1, 1, 32, 1, 1, 0, one_, parameters, nullptr), kSuccess);
  expect("but it runs on device 0");
  EXPECT_EQ(cuLaunchKernel(scale, 1, 1, 1, 32, 1, 1, 0, elsewhere_, parameters, nullptr), kInvalidHandle);
}

TEST_F(Mistakes, AnEventOfAnotherContext) {
  EXPECT_EQ(cuEventRecord(event_, elsewhere_), kInvalidHandle);
  cuEventRecord(event_, one_);
  EXPECT_EQ(cuStreamWaitEvent(elsewhere_, event_, 0), kSuccess) << "waiting may";
}

TEST_F(Mistakes, OperationsOfACommunicatorInNoOrder) {
  const auto operation = [](void* thing) { roda_cuda_double_take_turn(thing, "an operation"); };
  int communicator = 0;
  cuLaunchHostFunc(one_, operation, &communicator);
  cuLaunchHostFunc(two_, operation, &communicator);
  expect("two operations of one communicator");
}

TEST_F(Mistakes, ARecordingDrawsInWhatWaitsForIt) {
  void* graph = nullptr;
  int status = 0;
  cuStreamBeginCapture_v2(one_, kCaptureRelaxed);
  cuEventRecord(event_, one_);
  cuStreamWaitEvent(two_, event_, 0);
  EXPECT_EQ(cuStreamIsCapturing(two_, &status), kSuccess);
  EXPECT_NE(status, kCaptureNone);
  EXPECT_EQ(cuStreamEndCapture(one_, &graph), kUnjoined);
  cuStreamIsCapturing(two_, &status);
  EXPECT_EQ(status, kCaptureNone);
}

TEST_F(Mistakes, WhatSpoilsARecording) {
  void* graph = nullptr;
  cuEventRecord(before_, two_);
  cuStreamBeginCapture_v2(one_, kCaptureRelaxed);
  EXPECT_EQ(cuStreamWaitEvent(one_, before_, 0), kIsolation);
  EXPECT_EQ(cuStreamEndCapture(one_, &graph), kInvalidated);
  cuStreamBeginCapture_v2(one_, kCaptureRelaxed);
  cuEventRecord(event_, one_);
  EXPECT_EQ(cuEventQuery(event_), kCapturedEvent);
  EXPECT_EQ(cuStreamEndCapture(one_, &graph), kInvalidated);
  cuStreamBeginCapture_v2(one_, kCaptureRelaxed);
  EXPECT_EQ(cuStreamQuery(one_), kCaptureUnsupported);
  EXPECT_EQ(cuStreamEndCapture(one_, &graph), kInvalidated);
}

// Which threads a recording forbids to allocate, by its mode and theirs.
TEST_F(Mistakes, ModesOfRecordings) {
  constexpr int kThreadLocal = 1;
  struct Case {
    int recording, thread;
    bool here, there;  // whether it is allowed on the thread that records, and on another
  };
  for (const Case& c :
       {Case{kCaptureGlobal, kCaptureGlobal, false, false}, Case{kCaptureGlobal, kThreadLocal, false, true},
        Case{kCaptureGlobal, kCaptureRelaxed, true, true}, Case{kThreadLocal, kCaptureGlobal, false, true},
        Case{kCaptureRelaxed, kCaptureGlobal, true, true}}) {
    const auto allocates = [&] {
      int mode = c.thread;
      cuThreadExchangeStreamCaptureMode(&mode);
      cuCtxPushCurrent_v2(context_);
      Address address = 0;
      const bool is_allowed = cuMemAlloc_v2(&address, 10) == kSuccess;
      Context context = nullptr;
      cuCtxPopCurrent_v2(&context);
      cuThreadExchangeStreamCaptureMode(&mode);
      return is_allowed;
    };
    void* graph = nullptr;
    cuStreamBeginCapture_v2(one_, c.recording);
    EXPECT_EQ(allocates(), c.here) << c.recording << c.thread;
    cuStreamEndCapture(one_, &graph);
    cuStreamBeginCapture_v2(one_, c.recording);
    std::thread([&] { EXPECT_EQ(allocates(), c.there) << c.recording << c.thread; }).join();
    EXPECT_EQ(cuStreamEndCapture(one_, &graph), c.there ? kSuccess : kInvalidated);
  }
}

}  // namespace
}  // namespace roda::cuda

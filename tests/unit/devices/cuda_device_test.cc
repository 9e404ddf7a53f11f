// The CUDA device over the double of the driver: memory, tables of arguments, streams, events. Kernels are host
// functions there, so this proves what the host does with them; tests/gpu proves the kernels, on a GPU.
#include <gtest/gtest.h>
#include <stdlib.h>

#include <cstring>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "plugins/base/cuda/types.h"
#include "plugins/devices/cuda/cuda_device.h"
#include "tests/doubles/cuda/double.h"

extern "C" {
roda::cuda::Result cuDevicePrimaryCtxRetain(roda::cuda::Context* context, roda::cuda::Ordinal device);
roda::cuda::Result cuCtxPushCurrent_v2(roda::cuda::Context context);
roda::cuda::Result cuCtxPopCurrent_v2(roda::cuda::Context* context);
roda::cuda::Result cuStreamBeginCapture_v2(roda::cuda::Stream stream, int mode);
roda::cuda::Result cuStreamEndCapture(roda::cuda::Stream stream, void** graph);
}

namespace {

constexpr std::uint64_t kMiB = 1u << 20;
constexpr std::uint64_t kLimit = 64 * kMiB;

roda_error make_error() {
  roda_error error{};
  error.struct_size = sizeof error;
  return error;
}

bool says(const roda_error& error, const char* part) { return std::strstr(error.message, part) != nullptr; }

class CudaDevice : public testing::Test {
 protected:
  static const char* knob(void*, const char* name) {
    static const std::map<std::string, std::string> knobs = {
        {"RODA_TEST_CUDA_LIBRARY", ::getenv("RODA_TEST_CUDA_LIBRARY")},
        {"RODA_TEST_CUDA_MEMORY_LIMIT", std::to_string(kLimit)}};
    const auto found = knobs.find(name);
    return found == knobs.end() ? nullptr : found->second.c_str();
  }
  void SetUp() override {
    roda_host host{};
    host.struct_size = sizeof host;
    host.knob = knob;
    ASSERT_EQ(device_.probe(&host, &error_), RODA_OK) << error_.message;
  }
  void TearDown() override {
    roda_cuda_double_set_error(0);
    for (roda_memory& memory : memory_) device_.free(&memory);
  }
  char* alloc(std::size_t bytes, int number = 0) {
    memory_.emplace_back();
    EXPECT_EQ(device_.alloc(number, bytes, &memory_.back(), &error_), RODA_OK) << error_.message;
    return static_cast<char*>(memory_.back().address);
  }
  char* alloc(const std::vector<char>& data) {
    char* address = alloc(data.size());
    EXPECT_EQ(device_.copy(address, data.data(), data.size(), nullptr, &error_), RODA_OK) << error_.message;
    return address;
  }
  std::vector<char> read(const char* address, std::size_t bytes) {
    std::vector<char> data(bytes);
    EXPECT_EQ(device_.copy(data.data(), address, bytes, nullptr, &error_), RODA_OK) << error_.message;
    return data;
  }
  std::vector<char> noise(std::size_t bytes) {
    std::vector<char> data(bytes);
    for (char& byte : data) byte = static_cast<char>(random_());
    return data;
  }

  const roda_device& device_ = *roda_cuda_device();
  roda_error error_ = make_error();
  std::vector<roda_memory> memory_;
  std::mt19937 random_{20240601};
};

// First: nothing has used a device yet.
TEST_F(CudaDevice, MakesContextsOnlyWhereItIsUsed) {
  EXPECT_EQ(roda_cuda_double_contexts(), 0u);
  alloc(10, 2);
  EXPECT_EQ(roda_cuda_double_contexts(), 4u);
}

TEST_F(CudaDevice, KnowsItsMemory) {
  const char* ours = alloc(1000, 3);
  EXPECT_EQ(device_.device_of(ours), 3);
  EXPECT_EQ(device_.device_of(ours + 999), 3);
  EXPECT_EQ(device_.device_of(&ours), -1);
}

TEST_F(CudaDevice, KeepsItsBudget) {
  roda_memory memory{};
  ASSERT_EQ(device_.alloc(1, 40 * kMiB, &memory, &error_), RODA_OK) << error_.message;
  roda_memory more{};
  EXPECT_EQ(device_.alloc(1, 30 * kMiB, &more, &error_), RODA_ERR_NO_MEMORY);
  EXPECT_TRUE(says(error_, "RODA_TEST_CUDA_MEMORY_LIMIT") && says(error_, "device 1")) << error_.message;
  device_.free(&memory);
  EXPECT_EQ(device_.alloc(1, 30 * kMiB, &more, &error_), RODA_OK) << error_.message;
  device_.free(&more);
}

TEST_F(CudaDevice, SaysWhatToDoWhenTheDeviceIsFull) {
  ::setenv("RODA_CUDA_DOUBLE_MEMORY", "1048576", 1);
  roda_memory memory{};
  const int code = device_.alloc(0, 8 * kMiB, &memory, &error_);
  ::unsetenv("RODA_CUDA_DOUBLE_MEMORY");
  EXPECT_EQ(code, RODA_ERR_NO_MEMORY);
  EXPECT_TRUE(says(error_, "no room for 8 MiB on device 0") && says(error_, "HOROVOD_FUSION_THRESHOLD"))
      << error_.message;
}

TEST_F(CudaDevice, RefusesADeviceThatIsNotThere) {
  roda_memory memory{};
  EXPECT_EQ(device_.alloc(8, 10, &memory, &error_), RODA_ERR_INVALID);
  EXPECT_TRUE(says(error_, "no device 8") && says(error_, "sees 8")) << error_.message;
}

TEST_F(CudaDevice, StagingMemoryIsTheHosts) {
  roda_memory memory{};
  ASSERT_EQ(device_.alloc_staging(0, 5000, &memory, &error_), RODA_OK) << error_.message;
  EXPECT_EQ(memory.kind, RODA_MEMORY_HOST);
  EXPECT_EQ(device_.device_of(memory.address), -1);
  std::memset(memory.address, 7, 5000);
  const char* on_device = alloc(5000);
  EXPECT_EQ(device_.copy(const_cast<char*>(on_device), memory.address, 5000, nullptr, &error_), RODA_OK);
  EXPECT_EQ(read(on_device, 5000), std::vector<char>(5000, 7));
  device_.free(&memory);
}

// Thousands of tensors of all sizes, empty ones and odd addresses among them, there and back in one launch each.
TEST_F(CudaDevice, PacksThousandsOfTensors) {
  std::vector<roda_pack_item> items;
  std::vector<char> all = noise(3 << 20), expected;
  char* tensors = alloc(all);
  std::size_t from = 0;
  for (int i = 0; i < 5000; ++i) {
    const std::size_t bytes = i % 50 == 0 ? 0 : i == 77 ? 700000 : random_() % 300;
    from += random_() % 9;
    items.push_back({tensors + from, expected.size(), bytes});
    expected.insert(expected.end(), all.begin() + static_cast<std::ptrdiff_t>(from),
                    all.begin() + static_cast<std::ptrdiff_t>(from + bytes));
    expected.resize(expected.size() + random_() % 16, 'x');  // a gap, which stays as it is
    from += bytes;
  }
  ASSERT_LT(from, all.size());
  char* buffer = alloc(std::vector<char>(expected.size(), 'x'));
  ASSERT_EQ(device_.pack(buffer, items.data(), items.size(), nullptr, &error_), RODA_OK) << error_.message;
  EXPECT_EQ(read(buffer, expected.size()), expected);
  const std::vector<char> zeros(all.size(), 0);
  device_.copy(tensors, zeros.data(), zeros.size(), nullptr, &error_);
  ASSERT_EQ(device_.unpack(buffer, items.data(), items.size(), nullptr, &error_), RODA_OK) << error_.message;
  const std::vector<char> back = read(tensors, all.size());
  for (const roda_pack_item& item : items) {
    const auto at = static_cast<const char*>(item.tensor) - tensors;
    ASSERT_EQ(std::memcmp(&back[static_cast<std::size_t>(at)], &all[static_cast<std::size_t>(at)], item.bytes), 0);
  }
}

TEST_F(CudaDevice, PacksNothing) {
  char* buffer = alloc(100);
  const roda_pack_item empty[2] = {{buffer, 0, 0}, {buffer, 10, 0}};
  EXPECT_EQ(device_.pack(buffer, empty, 2, nullptr, &error_), RODA_OK) << error_.message;
  EXPECT_EQ(device_.pack(buffer, nullptr, 0, nullptr, &error_), RODA_OK) << error_.message;
}

// Tables of arguments are used again only when the launch that reads them is through.
TEST_F(CudaDevice, BucketsInFlightKeepTheirTables) {
  ::setenv("RODA_CUDA_DOUBLE_DELAY_US", "1000", 1);
  void* stream = nullptr;
  ASSERT_EQ(device_.stream_create(0, &stream, &error_), RODA_OK) << error_.message;
  ::unsetenv("RODA_CUDA_DOUBLE_DELAY_US");
  std::vector<std::vector<char>> data;
  std::vector<char*> buffers;
  for (int bucket = 0; bucket < 8; ++bucket) {
    data.push_back(noise(4000));
    char* tensors = alloc(data.back());
    buffers.push_back(alloc(4000));
    const roda_pack_item items[2] = {{tensors, 2500, 1500}, {tensors + 1500, 0, 2500}};
    ASSERT_EQ(device_.pack(buffers.back(), items, 2, stream, &error_), RODA_OK) << error_.message;
  }
  void* event = nullptr;
  ASSERT_EQ(device_.event_record(stream, &event, &error_), RODA_OK) << error_.message;
  while (device_.event_test(event, &error_) == RODA_IN_PROGRESS) {
  }
  device_.event_release(event);
  for (std::size_t bucket = 0; bucket < buffers.size(); ++bucket) {
    std::vector<char> expected(data[bucket].begin() + 1500, data[bucket].end());
    expected.insert(expected.end(), data[bucket].begin(), data[bucket].begin() + 1500);
    EXPECT_EQ(read(buffers[bucket], 4000), expected) << bucket;
  }
  device_.stream_destroy(stream);
}

TEST_F(CudaDevice, StreamsWaitForEvents) {
  ::setenv("RODA_CUDA_DOUBLE_DELAY_US", "3000", 1);
  void *slow = nullptr, *quick = nullptr, *event = nullptr;
  ASSERT_EQ(device_.stream_create(0, &slow, &error_), RODA_OK);
  ::unsetenv("RODA_CUDA_DOUBLE_DELAY_US");
  ASSERT_EQ(device_.stream_create(0, &quick, &error_), RODA_OK);
  const std::vector<char> data = noise(1000);
  char *first = alloc(1000), *second = alloc(1000);
  device_.copy(first, data.data(), 1000, slow, &error_);
  ASSERT_EQ(device_.event_record(slow, &event, &error_), RODA_OK);
  ASSERT_EQ(device_.event_wait(quick, event, &error_), RODA_OK);
  device_.copy(second, first, 1000, quick, &error_);
  void* done = nullptr;
  ASSERT_EQ(device_.event_record(quick, &done, &error_), RODA_OK);
  while (device_.event_test(done, &error_) == RODA_IN_PROGRESS) {
  }
  EXPECT_EQ(read(second, 1000), data);
  device_.event_release(event);
  device_.event_release(done);
  device_.stream_destroy(slow);
  device_.stream_destroy(quick);
}

// A stream that records a graph for as long as it lives; `result` is what the end says.
class Recording {
 public:
  Recording(void* stream, int mode) : stream_(static_cast<roda::cuda::Stream>(stream)) {
    EXPECT_EQ(cuStreamBeginCapture_v2(stream_, mode), 0);
  }
  ~Recording() {
    void* graph = nullptr;
    EXPECT_EQ(cuStreamEndCapture(stream_, &graph), 0) << "it was spoilt, or another stream was drawn into it";
    EXPECT_EQ(roda_cuda_double_captured(), before_);
  }
  Recording(const Recording&) = delete;
  Recording& operator=(const Recording&) = delete;

 private:
  const roda::cuda::Stream stream_;
  const unsigned before_ = roda_cuda_double_captured();
};

// An event would become a part of the graph, and make what waits for it one.
TEST_F(CudaDevice, PutsNothingOnAStreamThatRecordsAGraph) {
  void *stream = nullptr, *event = nullptr, *before = nullptr;
  ASSERT_EQ(device_.stream_create(0, &stream, &error_), RODA_OK);
  ASSERT_EQ(device_.event_record(stream, &before, &error_), RODA_OK);
  char* buffer = alloc(100);
  {
    const Recording recording(stream, roda::cuda::kCaptureGlobal);
    EXPECT_EQ(device_.event_record(stream, &event, &error_), RODA_ERR_UNSUPPORTED);
    EXPECT_TRUE(says(error_, "recording a CUDA graph")) << error_.message;
    EXPECT_EQ(device_.event_record_on(0, stream, &event, &error_), RODA_ERR_UNSUPPORTED);
    EXPECT_EQ(device_.event_wait(stream, before, &error_), RODA_ERR_UNSUPPORTED);
    EXPECT_EQ(device_.copy(buffer, buffer + 50, 50, stream, &error_), RODA_ERR_UNSUPPORTED);
  }
  device_.event_release(before);
  device_.stream_destroy(stream);
}

TEST_F(CudaDevice, RecordingsOnOtherStreamsForbidNothing) {
  void *recorded = nullptr, *stream = nullptr, *event = nullptr;
  ASSERT_EQ(device_.stream_create(0, &recorded, &error_), RODA_OK);
  ASSERT_EQ(device_.stream_create(0, &stream, &error_), RODA_OK);
  for (const int mode : {roda::cuda::kCaptureGlobal, 1, roda::cuda::kCaptureRelaxed}) {
    const Recording recording(recorded, mode);
    char *tensors = alloc(noise(1000)), *buffer = alloc(1000);
    const roda_pack_item items[2] = {{tensors, 500, 500}, {tensors + 500, 0, 500}};
    for (int round = 0; round < 2; ++round) {
      EXPECT_EQ(device_.pack(buffer, items, 2, stream, &error_), RODA_OK) << error_.message;
      ASSERT_EQ(device_.event_record(stream, &event, &error_), RODA_OK) << error_.message;
      int code = RODA_IN_PROGRESS;
      while (code == RODA_IN_PROGRESS) code = device_.event_test(event, &error_);
      EXPECT_EQ(code, RODA_OK) << error_.message;
      device_.event_release(event);
    }
    for (roda_memory& memory : memory_) device_.free(&memory);
    memory_.clear();
  }
  device_.stream_destroy(stream);
  device_.stream_destroy(recorded);
}

// Their handles are the same for all devices: the tensor's counts, whichever is current to the thread, if any.
TEST_F(CudaDevice, DefaultStreamsAreThoseOfTheNamedDevice) {
  void* const default_stream = reinterpret_cast<void*>(1);
  void *quick = nullptr, *event = nullptr, *done = nullptr;
  ASSERT_EQ(device_.stream_create(5, &quick, &error_), RODA_OK);
  const std::vector<char> data = noise(1000);
  char *first = alloc(1000, 5), *second = alloc(1000, 5);
  roda::cuda::Context context = nullptr, other = nullptr;
  ASSERT_EQ(cuDevicePrimaryCtxRetain(&context, 5) + cuDevicePrimaryCtxRetain(&other, 0), 0);
  ::setenv("RODA_CUDA_DOUBLE_DELAY_US", "3000", 1);
  cuCtxPushCurrent_v2(context);
  device_.copy(first, data.data(), 1000, default_stream, &error_);
  cuCtxPopCurrent_v2(&context);
  ::unsetenv("RODA_CUDA_DOUBLE_DELAY_US");
  for (const bool has_context : {false, true}) {
    if (has_context) cuCtxPushCurrent_v2(other);
    EXPECT_EQ(device_.event_record_on(5, default_stream, &event, &error_), RODA_OK) << error_.message;
    if (has_context) cuCtxPopCurrent_v2(&other);
    ASSERT_EQ(device_.event_wait(quick, event, &error_), RODA_OK);
    device_.event_release(event);
    device_.copy(second, first, 1000, quick, &error_);
    ASSERT_EQ(device_.event_record(quick, &done, &error_), RODA_OK);
    while (device_.event_test(done, &error_) == RODA_IN_PROGRESS) {
    }
    device_.event_release(done);
    EXPECT_EQ(read(second, 1000), data);
  }
  device_.stream_destroy(quick);
}

TEST_F(CudaDevice, ScalesWhilePacking) {
  const std::vector<float> values = {1.5f, -2.25f, 1000.0f, 0.0f, 65504.0f, 3.0f};
  std::vector<char> bytes(values.size() * sizeof(float));
  std::memcpy(bytes.data(), values.data(), bytes.size());
  char* tensors = alloc(bytes);
  char* buffer = alloc(100);
  const roda_pack_item items[2] = {{tensors, 12, 12}, {tensors + 12, 0, 12}};
  ASSERT_EQ(device_.pack_scaled(buffer, items, 2, RODA_FLOAT32, 0.5, nullptr, &error_), RODA_OK) << error_.message;
  const float expected[] = {0.0f, 32752.0f, 1.5f, 0.75f, -1.125f, 500.0f};
  EXPECT_EQ(std::memcmp(read(buffer, sizeof expected).data(), expected, sizeof expected), 0);
  ASSERT_EQ(device_.unpack_scaled(buffer, items, 2, RODA_FLOAT32, 2.0, nullptr, &error_), RODA_OK);
  EXPECT_EQ(read(tensors, bytes.size()), bytes);
  ASSERT_EQ(device_.unpack_scaled(buffer, items, 2, RODA_FLOAT32, 1.0, nullptr, &error_), RODA_OK);
  EXPECT_EQ(std::memcmp(read(tensors, 12).data(), expected + 3, 12), 0);
  EXPECT_EQ(device_.pack_scaled(buffer, items, 2, 99, 0.5, nullptr, &error_), RODA_ERR_UNSUPPORTED);
}

TEST_F(CudaDevice, ReducesAndScales) {
  const std::vector<std::int32_t> a = {1, -7, 100}, b = {5, 3, -1};
  std::vector<char> left(12), right(12);
  std::memcpy(left.data(), a.data(), 12);
  std::memcpy(right.data(), b.data(), 12);
  char *first = alloc(left), *second = alloc(right);
  ASSERT_EQ(device_.reduce(first, first, second, 3, RODA_INT32, RODA_SUM, nullptr, &error_), RODA_OK) << error_.message;
  ASSERT_EQ(device_.scale(first, 3, RODA_INT32, 0.5, nullptr, &error_), RODA_OK) << error_.message;
  const std::int32_t expected[] = {3, -2, 49};
  EXPECT_EQ(std::memcmp(read(first, 12).data(), expected, 12), 0);
  EXPECT_EQ(device_.reduce(first, first, second, 3, RODA_INT32, RODA_ADASUM, nullptr, &error_), RODA_ERR_UNSUPPORTED);
}

TEST_F(CudaDevice, DoesNotTakeTheBlameForAnEarlierError) {
  char* buffer = alloc(100);
  roda_cuda_double_set_error(roda::cuda::kLaunchFailed);
  EXPECT_EQ(device_.scale(buffer, 10, RODA_FLOAT32, 2.0, nullptr, &error_), RODA_ERR_SYSTEM);
  EXPECT_TRUE(says(error_, "scale was not begun: the GPU had failed before it") && says(error_, "compute-sanitizer"))
      << error_.message;
}

TEST_F(CudaDevice, NeedsMemoryOfAGpu) {
  float host = 1;
  EXPECT_EQ(device_.scale(&host, 1, RODA_FLOAT32, 2.0, nullptr, &error_), RODA_ERR_INVALID);
  EXPECT_TRUE(says(error_, "on no GPU")) << error_.message;
}

}  // namespace

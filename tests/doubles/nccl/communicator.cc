#include "tests/doubles/nccl/communicator.h"

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <thread>
#include <utility>

namespace cuda = roda::cuda;

// The one function of the CUDA double that is not in our table: work of the host's, in stream order.
extern "C" cuda::Result cuLaunchHostFunc(cuda::Stream stream, cuda::HostFunction function, void* argument);
extern "C" cuda::Result cuCtxGetDevice(cuda::Ordinal* device);
extern "C" cuda::Result cuCtxGetCurrent(cuda::Context* context);

namespace roda::nccl_double {
namespace {

using nccl::Result;
using nccl::Stream;
using std::chrono::microseconds;
using std::chrono::milliseconds;

constexpr long kConnectUs = 500;

// "NUMBER:REST"
long number(const char* text, const char** rest) {
  char* end = nullptr;
  const long value = std::strtol(text, &end, 10);
  if (rest != nullptr) *rest = *end == ':' ? end + 1 : end;
  return value;
}

void wait_until_given_up(const nccl::CommObject& comm) {
  while (!comm.is_aborted.load()) std::this_thread::sleep_for(milliseconds(1));
}

void fail(nccl::CommObject* comm, Result result, const std::string& text) {
  comm->last_error = text;
  const std::lock_guard lock(last_error().guard);
  std::snprintf(last_error().text, sizeof last_error().text, "%s", text.c_str());
  comm->state.store(result);
}

struct Hosted {
  nccl::CommObject* comm;
  std::unique_ptr<Work> work;
  int number;
};

// On the stream.
void run_hosted(void* argument) {
  const std::unique_ptr<Hosted> hosted(static_cast<Hosted*>(argument));
  nccl::CommObject& comm = *hosted->comm;
  ++traffic().started;
  traffic().started_bytes += hosted->work->bytes();
  {
    const std::lock_guard lock(comm.order);
    hosted->work->announce(comm.number);
    const char* rest = nullptr;
    const char* hang = setting("RODA_NCCL_DOUBLE_HANG", comm.rank);
    const char* error = setting("RODA_NCCL_DOUBLE_ASYNC_ERROR", comm.rank);
    if (error != nullptr && number(error, &rest) == hosted->number) {
      const char* words = nullptr;
      const long result = number(rest, &words);
      fail(&comm, static_cast<Result>(result), words);
      wait_until_given_up(comm);
    } else if (hang != nullptr && number(hang, nullptr) == hosted->number) {
      wait_until_given_up(comm);
    } else {
      const auto given_up = [&comm] { return comm.is_aborted.load(); };
      bool are_equal = true;
      if (hosted->work->place) comm.board->exchange(1, *hosted->work->place, given_up, &are_equal);
      if (!are_equal) fail(&comm, nccl::kInvalidUsage, "ranks work at different places of what is registered");
      hosted->work->run(given_up);
    }
  }
  comm.hosted.fetch_sub(1);
}

}  // namespace

Traffic& traffic() {
  static Traffic the_one;
  return the_one;
}

LastError& last_error() {
  static LastError the_one;
  return the_one;
}

const char* setting(const char* name, int rank) {
  const char* text = std::getenv(name);
  if (text == nullptr || text[0] != 'r') return text;
  char* end = nullptr;
  const long wanted = std::strtol(text + 1, &end, 10);
  return wanted == rank && *end == ':' ? end + 1 : nullptr;
}

void form(nccl::CommObject* comm) {
  const char* text = setting("RODA_NCCL_DOUBLE_INIT_ERROR", comm->rank);
  if (text != nullptr) {
    const char* words = nullptr;
    const long result = number(text, &words);
    return fail(comm, static_cast<Result>(result), words);
  }
  // As NCCL, which takes ranks of another host id for those of another host.
  const char* host = std::getenv("NCCL_HOSTID");
  const int host_number = host == nullptr ? 0 : 1 + static_cast<int>(std::hash<std::string>()(host) % 1000000);
  comm->board = std::make_unique<Board>(comm->name, comm->rank, comm->size, host_number * 1024 + comm->device);
  if (setting("RODA_NCCL_DOUBLE_INIT_HANG", comm->rank) != nullptr) wait_until_given_up(*comm);
  while (!comm->board->is_complete()) std::this_thread::sleep_for(microseconds(200));
  if (const int other = comm->board->same_device(); other >= 0) {
    return fail(comm, nccl::kInvalidUsage,
                "Duplicate GPU detected : rank " + std::to_string(comm->rank) + " and rank " + std::to_string(other) +
                    " both on CUDA device " + std::to_string(comm->device));
  }
  comm->state.store(nccl::kSuccess);
}

Result put_on_stream(nccl::CommObject* comm, std::unique_ptr<Work> work, Stream stream) {
  const int number = ++comm->operations;
  ++traffic().called;
  auto hosted = std::make_unique<Hosted>(Hosted{comm, std::move(work), number});
  comm->hosted.fetch_add(1);
  const char* text = std::getenv("RODA_NCCL_DOUBLE_LAUNCH_US");
  const long delay = text != nullptr ? std::atol(text) : number == 1 ? kConnectUs : 0;
  if (delay > 0) std::this_thread::sleep_for(microseconds(delay));
  cuLaunchHostFunc(stream, &run_hosted, hosted.release());
  return nccl::kSuccess;
}

nccl::CommObject* make(int size, const nccl::UniqueId& id, int rank) {
  auto comm = std::make_unique<nccl::CommObject>();
  static std::atomic<std::uintptr_t> made{0};
  comm->number = reinterpret_cast<const void*>(++made);
  comm->name = id.bytes;
  comm->rank = rank;
  comm->size = size;
  if (cuCtxGetCurrent(&comm->context) != cuda::kSuccess || cuCtxGetDevice(&comm->device) != cuda::kSuccess)
    return nullptr;
  return comm.release();
}

Result destroy(nccl::CommObject* comm) {
  while (comm->hosted.load() > 0 || comm->is_busy.load()) std::this_thread::sleep_for(microseconds(200));
  delete comm;
  return nccl::kSuccess;
}

}  // namespace roda::nccl_double

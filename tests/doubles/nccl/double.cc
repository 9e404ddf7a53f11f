#include "tests/doubles/nccl/double.h"

#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "tests/doubles/nccl/arithmetic.h"
#include "tests/doubles/nccl/work.h"

namespace nccl = roda::nccl;
namespace cuda = roda::cuda;
using nccl::Comm;
using nccl::Result;
using nccl::Stream;
using roda::nccl_double::Board;
using roda::nccl_double::Work;

// The one function of the CUDA double that is not in our table: work of the host's, in stream order.
extern "C" cuda::Result cuLaunchHostFunc(Stream stream, cuda::HostFunction function, void* argument);
extern "C" cuda::Result cuCtxGetDevice(cuda::Ordinal* device);
extern "C" cuda::Result cuCtxGetCurrent(cuda::Context* context);
extern "C" cuda::Result cuCtxPushCurrent_v2(cuda::Context context);

namespace roda::nccl {

struct CommObject {
  std::string name;
  int rank = 0;
  int size = 1;
  int device = -1;
  bool is_blocking = false;
  cuda::Context context = nullptr;
  std::unique_ptr<roda::nccl_double::Board> board;
  std::atomic<Result> state{kInProgress};
  std::string last_error;  // set before state
  std::atomic<bool> is_aborted{false};
  std::atomic<int> hosted{0};  // operations on streams
  int operations = 0;
  std::mutex order;  // operations of one communicator run one after another, whatever their streams
  std::thread former, launcher;
};

}  // namespace roda::nccl

namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;

constexpr long kConnectUs = 500;
constexpr const char* kBoardPrefix = "roda-nccl-double-";

// What the variable says if it is meant for the rank: "rR:REST" for one, "REST" for all; else null.
const char* setting(const char* name, int rank) {
  const char* text = std::getenv(name);
  if (text == nullptr || text[0] != 'r') return text;
  char* end = nullptr;
  const long wanted = std::strtol(text + 1, &end, 10);
  return wanted == rank && *end == ':' ? end + 1 : nullptr;
}

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
  comm->state.store(result);
}

void form(nccl::CommObject* comm) {
  const char* text = setting("RODA_NCCL_DOUBLE_INIT_ERROR", comm->rank);
  if (text != nullptr) {
    const char* words = nullptr;
    const long result = number(text, &words);
    return fail(comm, static_cast<Result>(result), words);
  }
  comm->board = std::make_unique<Board>(comm->name, comm->rank, comm->size, comm->device);
  if (setting("RODA_NCCL_DOUBLE_INIT_HANG", comm->rank) != nullptr) wait_until_given_up(*comm);
  while (!comm->board->is_complete() && !comm->is_aborted.load()) std::this_thread::sleep_for(microseconds(200));
  if (comm->is_aborted.load()) {
    comm->board->remove_name();
    return fail(comm, nccl::kInternalError, "aborted while forming");
  }
  if (const int other = comm->board->same_device(); other >= 0) {
    return fail(comm, nccl::kInvalidUsage,
                "Duplicate GPU detected : rank " + std::to_string(comm->rank) + " and rank " + std::to_string(other) +
                    " both on CUDA device " + std::to_string(comm->device));
  }
  comm->state.store(nccl::kSuccess);
}

// A group call under way on this thread.
struct Grouped {
  int depth = 0;
  nccl::CommObject* comm = nullptr;
  std::unique_ptr<Work> work;
  Stream stream = nullptr;
};
thread_local Grouped grouped;

struct Hosted {
  nccl::CommObject* comm;
  std::unique_ptr<Work> work;
  int number;
};

// On the stream.
void run_hosted(void* argument) {
  const std::unique_ptr<Hosted> hosted(static_cast<Hosted*>(argument));
  nccl::CommObject& comm = *hosted->comm;
  {
    const std::lock_guard lock(comm.order);
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
      hosted->work->run([&comm] { return comm.is_aborted.load(); });
    }
  }
  comm.hosted.fetch_sub(1);
}

Result put_on_stream(nccl::CommObject* comm, std::unique_ptr<Work> work, Stream stream) {
  const int number = ++comm->operations;
  auto hosted = std::make_unique<Hosted>(Hosted{comm, std::move(work), number});
  comm->hosted.fetch_add(1);
  const char* text = std::getenv("RODA_NCCL_DOUBLE_LAUNCH_US");
  const long delay = text != nullptr ? std::atol(text) : number == 1 ? kConnectUs : 0;
  if (delay == 0 || comm->is_blocking) {
    cuLaunchHostFunc(stream, &run_hosted, hosted.release());
    return nccl::kSuccess;
  }
  if (comm->launcher.joinable()) comm->launcher.join();
  comm->state.store(nccl::kInProgress);
  comm->launcher = std::thread([comm, stream, delay, argument = hosted.release()] {
    cuCtxPushCurrent_v2(comm->context);
    std::this_thread::sleep_for(microseconds(delay));
    cuLaunchHostFunc(stream, &run_hosted, argument);
    Result expected = nccl::kInProgress;
    comm->state.compare_exchange_strong(expected, nccl::kSuccess);
  });
  return nccl::kInProgress;
}

// Into the group call under way, or to the stream at once.
template <typename Add>
Result operate(nccl::CommObject* comm, Stream stream, Add&& add) {
  if (grouped.depth > 0) {
    if (grouped.work == nullptr) grouped.work = std::make_unique<Work>(*comm->board);
    grouped.comm = comm;
    grouped.stream = stream;
    add(*grouped.work);
    return nccl::kSuccess;
  }
  if (!comm->is_blocking && comm->state.load() == nccl::kInProgress) {
    comm->last_error = "a call was made while another was in progress";
    return nccl::kInvalidUsage;
  }
  auto work = std::make_unique<Work>(*comm->board);
  add(*work);
  return put_on_stream(comm, std::move(work), stream);
}

nccl::CommObject* make(int size, const nccl::UniqueId& id, int rank) {
  auto comm = std::make_unique<nccl::CommObject>();
  comm->name = id.bytes;
  comm->rank = rank;
  comm->size = size;
  if (cuCtxGetCurrent(&comm->context) != cuda::kSuccess || cuCtxGetDevice(&comm->device) != cuda::kSuccess)
    return nullptr;
  return comm.release();
}

// What is on streams ends first.
Result destroy(nccl::CommObject* comm) {
  if (comm->former.joinable()) comm->former.join();
  if (comm->launcher.joinable()) comm->launcher.join();
  while (comm->hosted.load() > 0) std::this_thread::sleep_for(microseconds(200));
  delete comm;
  return nccl::kSuccess;
}

const char* chars(const void* data) { return static_cast<const char*>(data); }
char* chars(void* data) { return static_cast<char*>(data); }

}  // namespace

#define RODA_DOUBLE extern "C" __attribute__((visibility("default")))

RODA_DOUBLE Result ncclGetVersion(int* version) {
  const char* text = std::getenv("RODA_NCCL_DOUBLE_VERSION");
  *version = text != nullptr ? std::atoi(text) : RODA_NCCL_DOUBLE_DEFAULT_VERSION;
  return nccl::kSuccess;
}
RODA_DOUBLE Result ncclGetUniqueId(nccl::UniqueId* id) {
  static std::atomic<unsigned> counter{0};
  Board::sweep(kBoardPrefix);
  std::memset(id->bytes, 0, sizeof id->bytes);
  std::snprintf(id->bytes, sizeof id->bytes, "/%s%d-%u", kBoardPrefix, static_cast<int>(::getpid()), counter++);
  return nccl::kSuccess;
}
RODA_DOUBLE Result ncclCommInitRank(Comm* comm, int size, nccl::UniqueId id, int rank) {
  nccl::CommObject* made = make(size, id, rank);
  if (made == nullptr) return nccl::kUnhandledCudaError;
  made->is_blocking = true;
  form(made);
  const Result result = made->state.load();
  *comm = result == nccl::kSuccess ? made : nullptr;
  if (result != nccl::kSuccess) delete made;
  return result;
}
RODA_DOUBLE Result ncclCommDestroy(Comm comm) { return destroy(comm); }
RODA_DOUBLE Result ncclCommAbort(Comm comm) {
  comm->is_aborted.store(true);
  const char* text = setting("RODA_NCCL_DOUBLE_ABORT_MS", comm->rank);
  if (text != nullptr) std::this_thread::sleep_for(milliseconds(std::atol(text)));
  return destroy(comm);
}
RODA_DOUBLE Result ncclCommGetAsyncError(Comm comm, Result* error) {
  *error = comm->state.load();
  return nccl::kSuccess;
}
RODA_DOUBLE const char* ncclGetErrorString(Result result) {
  constexpr const char* kTexts[] = {"no error",
                                    "unhandled cuda error",
                                    "unhandled system error",
                                    "internal error",
                                    "invalid argument",
                                    "invalid usage",
                                    "remote process exited or there was a network error",
                                    "NCCL operation in progress"};
  return result >= 0 && result < 8 ? kTexts[result] : "unknown result code";
}
RODA_DOUBLE Result ncclGroupStart() {
  ++grouped.depth;
  return nccl::kSuccess;
}
RODA_DOUBLE Result ncclGroupEnd() {
  if (--grouped.depth > 0 || grouped.work == nullptr) return nccl::kSuccess;
  return put_on_stream(grouped.comm, std::move(grouped.work), grouped.stream);
}

RODA_DOUBLE Result ncclAllReduce(const void* from, void* to, std::size_t count, int dtype, int op, Comm comm,
                                 Stream stream) {
  return operate(comm, stream, [=](Work& work) { work.all_reduce(chars(from), chars(to), count, dtype, op); });
}
RODA_DOUBLE Result ncclBroadcast(const void* from, void* to, std::size_t count, int dtype, int root, Comm comm,
                                 Stream stream) {
  const std::size_t bytes = count * roda::nccl_double::size_of(dtype);
  return operate(comm, stream, [=](Work& work) { work.broadcast(chars(from), chars(to), bytes, root); });
}
RODA_DOUBLE Result ncclReduce(const void* from, void* to, std::size_t count, int dtype, int op, int root, Comm comm,
                              Stream stream) {
  return operate(comm, stream, [=](Work& work) { work.reduce(chars(from), chars(to), count, dtype, op, root); });
}
RODA_DOUBLE Result ncclAllGather(const void* from, void* to, std::size_t count, int dtype, Comm comm, Stream stream) {
  const std::size_t bytes = count * roda::nccl_double::size_of(dtype);
  return operate(comm, stream, [=](Work& work) { work.all_gather(chars(from), chars(to), bytes); });
}
RODA_DOUBLE Result ncclReduceScatter(const void* from, void* to, std::size_t count, int dtype, int op, Comm comm,
                                     Stream stream) {
  return operate(comm, stream, [=](Work& work) { work.reduce_scatter(chars(from), chars(to), count, dtype, op); });
}
RODA_DOUBLE Result ncclSend(const void* from, std::size_t count, int dtype, int peer, Comm comm, Stream stream) {
  const std::size_t bytes = count * roda::nccl_double::size_of(dtype);
  return operate(comm, stream, [=](Work& work) { work.send(peer, chars(from), bytes); });
}
RODA_DOUBLE Result ncclRecv(void* to, std::size_t count, int dtype, int peer, Comm comm, Stream stream) {
  const std::size_t bytes = count * roda::nccl_double::size_of(dtype);
  return operate(comm, stream, [=](Work& work) { work.receive(peer, chars(to), bytes); });
}

#if RODA_NCCL_DOUBLE_DEFAULT_VERSION >= 21400
RODA_DOUBLE Result ncclCommInitRankConfig(Comm* comm, int size, nccl::UniqueId id, int rank, nccl::Config* config) {
  if (config->magic != 0xcafebeef || config->size < sizeof(nccl::Config) || config->blocking != 0) {
    return nccl::kInvalidArgument;
  }
  nccl::CommObject* made = make(size, id, rank);
  if (made == nullptr) return nccl::kUnhandledCudaError;
  *comm = made;
  made->former = std::thread([made] { form(made); });
  return nccl::kInProgress;
}
RODA_DOUBLE Result ncclCommFinalize(Comm comm) {
  if (comm->launcher.joinable()) comm->launcher.join();
  comm->state.store(nccl::kInProgress);
  comm->launcher = std::thread([comm] {
    while (comm->hosted.load() > 0 && !comm->is_aborted.load()) std::this_thread::sleep_for(microseconds(200));
    Result expected = nccl::kInProgress;
    comm->state.compare_exchange_strong(expected, nccl::kSuccess);
  });
  return nccl::kInProgress;
}
RODA_DOUBLE const char* ncclGetLastError(Comm comm) { return comm != nullptr ? comm->last_error.c_str() : ""; }
#endif

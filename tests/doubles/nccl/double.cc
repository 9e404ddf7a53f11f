#include "tests/doubles/nccl/double.h"

#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <thread>

#include "tests/doubles/nccl/arithmetic.h"
#include "tests/doubles/nccl/communicator.h"

namespace nccl = roda::nccl;
using namespace roda::nccl_double;
using nccl::Comm;
using nccl::Result;
using nccl::Stream;
using std::chrono::microseconds;
using std::chrono::milliseconds;

namespace {

constexpr const char* kBoardPrefix = "roda-nccl-double-";

// A group call under way on this thread.
struct Grouped {
  int depth = 0;
  nccl::CommObject* comm = nullptr;
  std::unique_ptr<Work> work;
  Stream stream = nullptr;
};
thread_local Grouped grouped;

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
  const Call call(comm);
  if (!call.may_go_on()) return nccl::kInvalidUsage;
  auto work = std::make_unique<Work>(*comm->board);
  add(*work);
  return put_on_stream(comm, std::move(work), stream);
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
  form(made);
  const Result result = made->state.load();
  *comm = result == nccl::kSuccess ? made : nullptr;
  if (result != nccl::kSuccess) delete made;
  return result;
}
RODA_DOUBLE Result ncclCommDestroy(Comm comm) { return destroy(comm); }
RODA_DOUBLE Result ncclCommAbort(Comm comm) {
  comm->is_aborted.store(true);
  comm->registrations.give_up();
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
  const Call call(grouped.comm);
  if (!call.may_go_on()) return nccl::kInvalidUsage;
  return put_on_stream(grouped.comm, std::move(grouped.work), grouped.stream);
}

RODA_DOUBLE Result ncclAllReduce(const void* from, void* to, std::size_t count, int dtype, int op, Comm comm,
                                 Stream stream) {
  const std::uint64_t place = comm->registrations.note(from, count * size_of(dtype), to, count * size_of(dtype));
  return operate(comm, stream, [=](Work& work) {
    work.place = place;
    work.all_reduce(chars(from), chars(to), count, dtype, op);
  });
}
RODA_DOUBLE Result ncclBroadcast(const void* from, void* to, std::size_t count, int dtype, int root, Comm comm,
                                 Stream stream) {
  const std::size_t bytes = count * size_of(dtype);
  return operate(comm, stream, [=](Work& work) { work.broadcast(chars(from), chars(to), bytes, root); });
}
RODA_DOUBLE Result ncclReduce(const void* from, void* to, std::size_t count, int dtype, int op, int root, Comm comm,
                              Stream stream) {
  return operate(comm, stream, [=](Work& work) { work.reduce(chars(from), chars(to), count, dtype, op, root); });
}
RODA_DOUBLE Result ncclAllGather(const void* from, void* to, std::size_t count, int dtype, Comm comm, Stream stream) {
  const std::size_t bytes = count * size_of(dtype);
  const std::uint64_t place = comm->registrations.note(from, bytes, to, bytes * static_cast<std::size_t>(comm->size));
  return operate(comm, stream, [=](Work& work) {
    work.place = place;
    work.all_gather(chars(from), chars(to), bytes);
  });
}
RODA_DOUBLE Result ncclReduceScatter(const void* from, void* to, std::size_t count, int dtype, int op, Comm comm,
                                     Stream stream) {
  const std::size_t bytes = count * size_of(dtype);
  const std::uint64_t place = comm->registrations.note(from, bytes * static_cast<std::size_t>(comm->size), to, bytes);
  return operate(comm, stream, [=](Work& work) {
    work.place = place;
    work.reduce_scatter(chars(from), chars(to), count, dtype, op);
  });
}
RODA_DOUBLE Result ncclSend(const void* from, std::size_t count, int dtype, int peer, Comm comm, Stream stream) {
  const std::size_t bytes = count * size_of(dtype);
  return operate(comm, stream, [=](Work& work) { work.send(peer, chars(from), bytes); });
}
RODA_DOUBLE Result ncclRecv(void* to, std::size_t count, int dtype, int peer, Comm comm, Stream stream) {
  const std::size_t bytes = count * size_of(dtype);
  return operate(comm, stream, [=](Work& work) { work.receive(peer, chars(to), bytes); });
}

#if RODA_NCCL_DOUBLE_DEFAULT_VERSION >= 22800
RODA_DOUBLE Result ncclAlltoAll(const void* from, void* to, std::size_t count, int dtype, Comm comm, Stream stream) {
  const std::size_t bytes = count * size_of(dtype);
  ++traffic().all_to_alls;
  return operate(comm, stream, [=](Work& work) {
    for (int peer = 0; peer < comm->size; ++peer) {
      const std::size_t part = static_cast<std::size_t>(peer) * bytes;
      work.send(peer, chars(from) + part, bytes);
      work.receive(peer, chars(to) + part, bytes);
    }
  });
}
#endif
#if RODA_NCCL_DOUBLE_DEFAULT_VERSION >= 21300
RODA_DOUBLE const char* ncclGetLastError(Comm comm) {
  return comm != nullptr ? comm->last_error.c_str() : last_error().text;
}
#endif

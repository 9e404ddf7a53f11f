// NCCL, opened at run time behind a table of its functions, with declarations of our own: what is here has kept its
// binary form since NCCL 2.8. AMD's RCCL has the same names and forms. tests/doubles/nccl/agreement.cc compares it with
// nccl.h where that is installed.
#pragma once

#include <roda/sdk/error.hpp>

#include <cstddef>
#include <memory>
#include <string>

#include "plugins/base/cuda/driver.h"
#include "plugins/base/cuda/types.h"

namespace roda::nccl {

using Result = int;  // ncclResult_t: a newer library may return one that this file does not know
using Comm = struct CommObject*;
using Stream = cuda::Stream;

inline constexpr Result kSuccess = 0;
inline constexpr Result kUnhandledCudaError = 1;
inline constexpr Result kSystemError = 2;
inline constexpr Result kInternalError = 3;
inline constexpr Result kInvalidArgument = 4;
inline constexpr Result kInvalidUsage = 5;
inline constexpr Result kRemoteError = 6;
inline constexpr Result kInProgress = 7;

enum Dtype : int {
  kInt8 = 0,
  kUint8 = 1,
  kInt32 = 2,
  kInt64 = 4,
  kFloat16 = 6,
  kFloat32 = 7,
  kFloat64 = 8,
  kBfloat16 = 9,  // from 2.10
};
enum Op : int {
  kSum = 0,
  kProd = 1,
  kMax = 2,
  kMin = 3,
  kAvg = 4,  // from 2.10
};

struct UniqueId {
  char bytes[128];
};

inline constexpr int kOldest = 2800;    // 2.8.0, in the coding of its time
inline constexpr int kAverage = 21000;  // and bfloat16

// Member, exported name, result, parameters.
#define RODA_NCCL_FUNCTIONS(X)                                                                                    \
  X(GetVersion, ncclGetVersion, Result, (int* version))                                                           \
  X(GetUniqueId, ncclGetUniqueId, Result, (UniqueId * id))                                                        \
  X(CommInitRank, ncclCommInitRank, Result, (Comm * comm, int size, UniqueId id, int rank))                       \
  X(CommDestroy, ncclCommDestroy, Result, (Comm comm))                                                            \
  X(CommAbort, ncclCommAbort, Result, (Comm comm))                                                                \
  X(CommGetAsyncError, ncclCommGetAsyncError, Result, (Comm comm, Result * error))                                \
  X(GetErrorString, ncclGetErrorString, const char*, (Result result))                                             \
  X(GroupStart, ncclGroupStart, Result, ())                                                                       \
  X(GroupEnd, ncclGroupEnd, Result, ())                                                                           \
  X(AllReduce, ncclAllReduce, Result,                                                                             \
    (const void* from, void* to, std::size_t count, int dtype, int op, Comm comm, Stream stream))                 \
  X(Broadcast, ncclBroadcast, Result,                                                                             \
    (const void* from, void* to, std::size_t count, int dtype, int root, Comm comm, Stream stream))               \
  X(Reduce, ncclReduce, Result,                                                                                   \
    (const void* from, void* to, std::size_t count, int dtype, int op, int root, Comm comm, Stream stream))       \
  X(AllGather, ncclAllGather, Result,                                                                             \
    (const void* from, void* to, std::size_t count, int dtype, Comm comm, Stream stream))                         \
  X(ReduceScatter, ncclReduceScatter, Result,                                                                     \
    (const void* from, void* to, std::size_t count, int dtype, int op, Comm comm, Stream stream))                 \
  X(Send, ncclSend, Result, (const void* from, std::size_t count, int dtype, int peer, Comm comm, Stream stream)) \
  X(Recv, ncclRecv, Result, (void* to, std::size_t count, int dtype, int peer, Comm comm, Stream stream))

// Null in libraries that lack them: from 2.13, 2.19, 2.27 and 2.28 on.
#define RODA_NCCL_ERROR_FUNCTIONS(X) X(GetLastError, ncclGetLastError, const char*, (Comm comm))
#define RODA_NCCL_REGISTRATION_FUNCTIONS(X)                                                              \
  X(MemAlloc, ncclMemAlloc, Result, (void** memory, std::size_t bytes))                                  \
  X(MemFree, ncclMemFree, Result, (void* memory))                                                        \
  X(CommRegister, ncclCommRegister, Result, (Comm comm, void* buffer, std::size_t bytes, void** handle)) \
  X(CommDeregister, ncclCommDeregister, Result, (Comm comm, void* handle))
#define RODA_NCCL_WINDOW_FUNCTIONS(X)                                              \
  X(CommWindowRegister, ncclCommWindowRegister, Result,                            \
    (Comm comm, void* buffer, std::size_t bytes, void** window, int window_flags)) \
  X(CommWindowDeregister, ncclCommWindowDeregister, Result, (Comm comm, void* window))
#define RODA_NCCL_ALLTOALL_FUNCTIONS(X) \
  X(AlltoAll, ncclAlltoAll, Result,     \
    (const void* from, void* to, std::size_t count, int dtype, Comm comm, Stream stream))
#define RODA_NCCL_NEWER_FUNCTIONS(X)  \
  RODA_NCCL_ERROR_FUNCTIONS(X)        \
  RODA_NCCL_REGISTRATION_FUNCTIONS(X) \
  RODA_NCCL_WINDOW_FUNCTIONS(X)       \
  RODA_NCCL_ALLTOALL_FUNCTIONS(X)

// How windows are registered: on every rank the part that a collective works on lies at the same place of the window.
inline constexpr int kSymmetric = 1;

// "2.21.5", for either way in which NCCL has coded its versions.
std::string version_text(int version);

// Immutable once found; any thread.
struct Library {
#define X(member, symbol, result, parameters) result(*member) parameters = nullptr;
  RODA_NCCL_FUNCTIONS(X)
  RODA_NCCL_NEWER_FUNCTIONS(X)
#undef X
  std::shared_ptr<void> handle;  // the dynamic linker's
  std::string path;              // of the file that it came from
  int version = 0;               // as ncclGetVersion says

  // `named` is the user's choice of a file, null for none. Without it a library that the process has loaded already
  // (PyTorch's) is taken, or else the system's. Throws sdk::Failure(RODA_ERR_UNAVAILABLE) with the reason: none, older
  // than 2.8, or two versions in the process. A library that was not loaded before is closed with the object.
  static std::shared_ptr<const Library> find(const char* named);
  // Before it is used: NCCL's threads and exit handlers would outlive its code.
  void stay_open() const;

  bool registers_buffers() const {
    return MemAlloc != nullptr && MemFree != nullptr && CommRegister != nullptr && CommDeregister != nullptr;
  }
  bool has_windows() const { return CommWindowRegister != nullptr && CommWindowDeregister != nullptr; }
  // "NCCL 2.21.5 (/usr/lib/libnccl.so.2)"
  std::string description() const { return "NCCL " + version_text(version) + " (" + path + ")"; }
};

// What a failed call of NCCL's means, in words that say what to do. `what` begins the text; `comm` may be null.
sdk::Failure explain(const Library& library, const cuda::Driver& driver, Comm comm, Result result,
                     const std::string& what);

// The advice for a text of NCCL's; "" when it is none of the known ones.
std::string advice(const cuda::Driver& driver, Result result, const std::string& text);

// A status of the CUDA layer as an exception; `rank` is this rank's number in the job.
inline void check(const Status& status, int rank = -1) {
  if (!status.ok()) throw sdk::Failure(status.code(), "nccl: " + status.message(), rank);
}

}  // namespace roda::nccl

// Our declarations of NCCL agree with nccl.h. Compiled where that is installed; nothing to run.
#include <nccl.h>

#include "tests/doubles/signatures.h"
#include "transports/nccl/library.h"

namespace roda::nccl {
namespace {

// ncclUniqueId is passed by value: as large as ours.
static_assert(sizeof(UniqueId) == sizeof(ncclUniqueId) && alignof(UniqueId) == alignof(ncclUniqueId));

#define X(member, symbol, result, parameters) \
  static_assert(doubles::CallAlike<decltype(Library::member), decltype(&::symbol)>::value, #symbol);
RODA_NCCL_FUNCTIONS(X)
#if NCCL_VERSION_CODE >= NCCL_VERSION(2, 13, 0)
RODA_NCCL_ERROR_FUNCTIONS(X)
static_assert(kInProgress == ncclInProgress && kRemoteError == ncclRemoteError);
#endif
#if NCCL_VERSION_CODE >= NCCL_VERSION(2, 19, 0)
RODA_NCCL_REGISTRATION_FUNCTIONS(X)
#endif
#if NCCL_VERSION_CODE >= NCCL_VERSION(2, 27, 0)
RODA_NCCL_WINDOW_FUNCTIONS(X)
static_assert(kSymmetric == NCCL_WIN_COLL_SYMMETRIC);
#endif
#if NCCL_VERSION_CODE >= NCCL_VERSION(2, 28, 0)
RODA_NCCL_ALLTOALL_FUNCTIONS(X)
#endif
#undef X

static_assert(kSuccess == ncclSuccess && kUnhandledCudaError == ncclUnhandledCudaError);
static_assert(kSystemError == ncclSystemError && kInternalError == ncclInternalError);
static_assert(kInvalidArgument == ncclInvalidArgument && kInvalidUsage == ncclInvalidUsage);
static_assert(int{kInt8} == ncclInt8 && int{kUint8} == ncclUint8 && int{kInt32} == ncclInt32);
static_assert(int{kInt64} == ncclInt64 && int{kFloat16} == ncclFloat16 && int{kFloat32} == ncclFloat32);
static_assert(int{kFloat64} == ncclFloat64);
static_assert(int{kSum} == ncclSum && int{kProd} == ncclProd && int{kMax} == ncclMax && int{kMin} == ncclMin);
#if NCCL_VERSION_CODE >= NCCL_VERSION(2, 10, 0)
static_assert(int{kAvg} == ncclAvg && int{kBfloat16} == ncclBfloat16);
#endif

}  // namespace
}  // namespace roda::nccl

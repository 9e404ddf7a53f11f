#include "transports/mpi/reductions.h"

#include <atomic>

namespace roda::mpi::RODA_MPI_FLAVOUR {
namespace {

std::atomic<const roda_host*> kernels{nullptr};  // MPI gives an operation no state of its own

template <int kDtype, int kOp>
void reduce(void* in, void* inout, int* count, MPI_Datatype*) {
  const roda_host* host = kernels.load(std::memory_order_relaxed);
  host->reduce(host->self, inout, in, inout, static_cast<std::size_t>(*count), kDtype, kOp);
}

// By dtype and op; the table of what MPI has no arithmetic for.
struct Custom {
  int dtype;
  int op;
  MPI_User_function* function;
  MPI_Op made;
  bool is_made;
};

#define RODA_MPI_OPS(dtype)                                                                                       \
  {dtype, RODA_SUM, &reduce<dtype, RODA_SUM>, {}, false}, {dtype, RODA_MIN, &reduce<dtype, RODA_MIN>, {}, false}, \
      {dtype, RODA_MAX, &reduce<dtype, RODA_MAX>, {}, false}, {                                                   \
    dtype, RODA_PRODUCT, &reduce<dtype, RODA_PRODUCT>, {}, false                                                  \
  }
Custom customs[] = {RODA_MPI_OPS(RODA_FLOAT16), RODA_MPI_OPS(RODA_BFLOAT16), RODA_MPI_OPS(RODA_BOOL)};
#undef RODA_MPI_OPS

}  // namespace

MPI_Datatype datatype_of(const Library& library, int dtype) {
  switch (dtype) {
    case RODA_INT8:
      return library.int8;
    case RODA_UINT16:
    case RODA_FLOAT16:
    case RODA_BFLOAT16:
      return library.uint16;
    case RODA_INT16:
      return library.int16;
    case RODA_INT32:
      return library.int32;
    case RODA_INT64:
      return library.int64;
    case RODA_FLOAT32:
      return library.float32;
    case RODA_FLOAT64:
      return library.float64;
    default:
      return library.uint8;
  }
}

bool is_reduction(int dtype, int op) {
  return roda_dtype_is(dtype, RODA_REDUCES) != 0 &&
         (op == RODA_SUM || op == RODA_MIN || op == RODA_MAX || op == RODA_PRODUCT);
}

MPI_Op operation_of(const Library& library, const roda_host* host, int dtype, int op) {
  for (Custom& custom : customs) {
    if (custom.dtype != dtype || custom.op != op) continue;
    kernels.store(host, std::memory_order_relaxed);
    if (!custom.is_made) {
      check(library, library.Op_create(custom.function, 1, &custom.made), "MPI_Op_create");
      custom.is_made = true;
    }
    return custom.made;
  }
  if (op == RODA_MIN) return library.min;
  if (op == RODA_MAX) return library.max;
  return op == RODA_PRODUCT ? library.prod : library.sum;
}

}  // namespace roda::mpi::RODA_MPI_FLAVOUR

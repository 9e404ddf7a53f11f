#include "transports/mpi/datatypes.h"

#include <atomic>
#include <utility>

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
  static constexpr std::pair<int, MPI_Datatype Library::*> kDtypes[] = {
      {RODA_INT8, &Library::int8},       {RODA_UINT16, &Library::uint16},   {RODA_FLOAT16, &Library::uint16},
      {RODA_BFLOAT16, &Library::uint16}, {RODA_INT16, &Library::int16},     {RODA_INT32, &Library::int32},
      {RODA_INT64, &Library::int64},     {RODA_FLOAT32, &Library::float32}, {RODA_FLOAT64, &Library::float64},
  };
  for (const auto& [ours, theirs] : kDtypes) {
    if (ours == dtype) return library.*theirs;
  }
  return library.uint8;
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

// Data whose counts or offsets may exceed an int, as derived types.
#pragma once

#include <vector>

#include "transports/mpi/library.h"

namespace roda::mpi::RODA_MPI_FLAVOUR {

// With a Turn. Throws sdk::Failure.
struct WideTypes {
  const Library& mpi;
  MPI_Datatype element;
  std::size_t width;                 // bytes of an element
  std::vector<MPI_Datatype>* owned;  // where derived types go, to be freed when the operation is over

  // What MPI_Ialltoallw wants, one entry per peer: `offsets` and `counts` in elements become counts, byte offsets and
  // types. What fits an int is left as it is; the rest becomes one derived type that holds its own offset.
  void describe(int size, const std::size_t* offsets, const std::size_t* counts, std::vector<int>* out_counts,
                std::vector<int>* out_offsets, std::vector<MPI_Datatype>* out_types) const;
  // One derived type of `count` elements, `offset` elements from the buffer's start.
  MPI_Datatype derive(std::size_t offset, std::size_t count) const;
};

}  // namespace roda::mpi::RODA_MPI_FLAVOUR

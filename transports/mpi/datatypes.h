// Data whose counts or offsets may exceed an int, as derived types.
#pragma once

#include <vector>

#include "transports/mpi/library.h"
#include "transports/mpi/mpi.h"

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
                std::vector<int>* out_offsets, std::vector<MPI_Datatype>* out_types) const {
    const auto peers = static_cast<std::size_t>(size);
    out_counts->assign(peers, 0);
    out_offsets->assign(peers, 0);
    out_types->assign(peers, element);
    for (std::size_t peer = 0; peer < peers; ++peer) {
      if (counts[peer] == 0) continue;
      if (counts[peer] <= largest_count() && offsets[peer] <= largest_count() / width) {
        (*out_counts)[peer] = static_cast<int>(counts[peer]);
        (*out_offsets)[peer] = static_cast<int>(offsets[peer] * width);
      } else {
        (*out_types)[peer] = derive(offsets[peer], counts[peer]);
        (*out_counts)[peer] = 1;
      }
    }
  }
  // One derived type of `count` elements, `offset` elements from the buffer's start.
  MPI_Datatype derive(std::size_t offset, std::size_t count) const {
    std::vector<int> lengths;
    std::vector<MPI_Aint> starts;
    for_each_piece(count, [&](std::size_t at, int length) {
      lengths.push_back(length);
      starts.push_back(static_cast<MPI_Aint>((offset + at) * width));
    });
    owned->reserve(owned->size() + 1);
    MPI_Datatype type{};
    check(mpi,
          mpi.Type_create_hindexed(static_cast<int>(lengths.size()), lengths.data(), starts.data(), element, &type),
          "MPI_Type_create_hindexed");
    owned->push_back(type);
    check(mpi, mpi.Type_commit(&owned->back()), "MPI_Type_commit");
    return owned->back();
  }
};

}  // namespace roda::mpi::RODA_MPI_FLAVOUR

// Lengths beyond what MPI's `int` counts hold, cut into pieces. Pure.
#pragma once

#include <algorithm>
#include <cstddef>

namespace roda::mpi {

// Elements of one call, see settings.h.
inline std::size_t& largest_count() {
  static std::size_t limit = std::size_t{1} << 30;
  return limit;
}

// Calls body(offset, count) for consecutive pieces of `total`, each at most largest_count().
template <typename Body>
void for_each_piece(std::size_t total, Body&& body) {
  for (std::size_t offset = 0; offset < total; offset += largest_count()) {
    body(offset, static_cast<int>(std::min(largest_count(), total - offset)));
  }
}

}  // namespace roda::mpi

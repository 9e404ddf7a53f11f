// What tests can set, read once per context.
#pragma once

#include <cstddef>
#include <roda/sdk/settings.hpp>

namespace roda::mpi {

struct Settings {
  std::size_t largest_count;
};

inline constexpr sdk::Setting<Settings> kSettings[] = {
    {&Settings::largest_count, "RODA_TEST_MPI_LARGEST_COUNT", "elements", "1073741824", 1, 1 << 30,
     "Of one call: lower, it reaches the paths of huge tensors with small ones."},
};

}  // namespace roda::mpi

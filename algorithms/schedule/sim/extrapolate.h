// A quantity that grows by the same amount for every step beyond some length, found from short runs.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

namespace roda::sim {

struct Dimension {
  std::int64_t length = 1;  // asked for
  std::int64_t base = 1;    // first length tried; below it nothing is expected to have settled
  std::int64_t stride = 1;  // a multiple of the rhythm's period, as far as that is known
  double tolerance = 1e-5;  // by which two steps of a settled rhythm may differ, relative
};

// `measure(lengths)` in all dimensions; nullopt: it failed, and so does the extrapolation. *whole tells whether the
// full lengths were measured.
std::optional<double> extrapolate(const std::vector<Dimension>& dimensions,
                                  const std::function<std::optional<double>(const std::vector<std::int64_t>&)>& measure,
                                  bool* whole);

}  // namespace roda::sim

// A change of what runs, as the log carries it: which launches it is about, and what those run from then on.
#pragma once

#include <roda/abi/types.h>

#include <bit>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <string>

namespace roda::negotiate {

// Launches of one process set that are alike to whoever chooses what runs them.
struct LaunchClass {
  std::int32_t collective = RODA_ALLREDUCE;
  std::int32_t dtype = RODA_FLOAT32;
  std::int32_t op = RODA_SUM;
  std::int32_t magnitude = 0;  // of the bytes that the selection table goes by: they have so many binary digits

  auto operator<=>(const LaunchClass&) const = default;
  // The least and the most of those bytes.
  std::size_t from() const { return magnitude == 0 ? 0 : std::size_t{1} << (magnitude - 1); }
  std::size_t to() const { return magnitude >= 64 ? SIZE_MAX : (std::size_t{1} << magnitude) - 1; }
};

inline std::int32_t magnitude_of(std::size_t bytes) { return static_cast<std::int32_t>(std::bit_width(bytes)); }

enum class Change : std::int32_t {
  kTry = 1,     // `option` runs about every second one of the next `launches`
  kKeep = 2,    // what was tried runs from now on
  kGoBack = 3,  // what was tried does not run any more
};

struct Refinement {
  // Of one try, at most.
  static constexpr std::uint32_t kMostLaunches = 1024;

  std::int32_t set = 0;
  Change change = Change::kTry;
  LaunchClass of;
  std::uint32_t launches = 0;  // kTry
  std::uint64_t after = 0;    // number of the class's latest change that the speaker knew, 0: none. Stale where another
                              // one came before it
  std::string option;         // that is tried, kept or given up: "transport/algorithm"
  std::string present;        // that it was measured against
  double option_seconds = 0;  // medians of what the speaker saw, for reports; 0: not seen
  double present_seconds = 0;
};

}  // namespace roda::negotiate

// How plans and choices name things to people.
#pragma once

#include <roda/abi/types.h>

#include <algorithm>
#include <cctype>
#include <string>

namespace roda::engine {

// "allreduce", "reducescatter"
inline std::string lower_name(int collective) {
  std::string name = roda_collective_name(collective);
  std::transform(name.begin(), name.end(), name.begin(), [](unsigned char c) { return std::tolower(c); });
  return name;
}

}  // namespace roda::engine

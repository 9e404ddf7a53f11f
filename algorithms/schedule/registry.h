// The list behind algorithms(): made by the build from the names in algorithms/meson.build.
#pragma once

#include <vector>

#include "algorithms/schedule/schedule.h"

namespace roda::schedule {

// In the order of the build's list.
std::vector<const Algorithm*> registered_algorithms();

}  // namespace roda::schedule

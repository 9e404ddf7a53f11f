// Algorithms from files (RODA_SCHEDULES).
#pragma once

#include <string>

#include "core/knobs/knobs.h"
#include "plugins/base/status.h"

namespace roda::engine {

// Reads and proves them, and sets them for schedule::find_algorithm. What is wrong is an error that names the file and,
// where the verifier objects, rank, lane and step. Of several sizes the smallest is proved at once, the others when
// they are first asked for.
Status load_user_algorithms(const Knobs& knobs);

// One line for each, to be compared between ranks: "algorithm allreduce/two_ways=3f2a...\n".
std::string user_algorithms_note();

}  // namespace roda::engine

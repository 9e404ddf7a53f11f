// What can be seen without executing: shapes, ranges, peers, signals, lanes, the algorithm's own description.
#pragma once

#include <optional>
#include <vector>

#include "algorithms/schedule/schedule.h"
#include "algorithms/schedule/verifier.h"

namespace roda::schedule::verifier {

// After it, every index in the schedules is valid.
std::optional<Violation> check(const std::vector<Schedule>& ranks);

// Name, collective and needs are those of the schedules it makes.
std::optional<Violation> check_description(const Algorithm& algorithm, const std::vector<Schedule>& ranks);

}  // namespace roda::schedule::verifier

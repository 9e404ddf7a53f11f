// A plan proved right: its stages' schedules written as one schedule per rank, which the verifier executes.
//
// The one schedule works in place over chunks small enough for every stage. A stage's reduce-scatter reads and writes
// the same memory, and lanes follow each other; neither changes what the data is, and the verifier sees every race that
// the aliasing would bring.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "algorithms/plan/plan.h"
#include "algorithms/schedule/verifier.h"

namespace roda::plan {

// The plan as schedules of the whole world. On failure the reason, with the stage.
std::optional<std::string> flatten(const Plan& plan, const Grid& grid, std::vector<schedule::Schedule>* ranks);

// nullopt: every rank ends with the full reduction, without deadlock or race.
std::optional<schedule::Violation> verify(const Plan& plan, const Grid& grid);

}  // namespace roda::plan

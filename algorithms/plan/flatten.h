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

// The plan of an allreduce as schedules of the whole world. On failure the reason, with the stage.
std::optional<std::string> flatten(const Plan& plan, const Grid& grid, std::vector<schedule::Schedule>* ranks);

// nullopt: every rank ends with the right result. An allreduce is executed as one schedule per rank, so that deadlocks
// and races between its stages would be found. For the others, whose stages work on data of their own, it is the way of
// every block through the stages (routes.h), and who has the data when (broadcast, for every root); that each stage's
// algorithm keeps its contract is the verifier's to prove.
std::optional<schedule::Violation> verify(const Plan& plan, const Grid& grid);

}  // namespace roda::plan

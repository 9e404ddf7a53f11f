// What plans are predicted to cost: the simulator's model over a cluster that stands for the job's links.
//
// A prediction, not a measurement. Pure functions, any thread.
#pragma once

#include <optional>

#include "core/engine/links.h"
#include "core/engine/planner.h"

namespace roda::engine {

// How much may be played for one prediction: about a second of one core, some ten milliseconds of a running job, or
// one.
inline constexpr double kManySteps = 5e6;
inline constexpr double kFewSteps = 1e5;
inline constexpr double kVeryFewSteps = 1e4;

// nullopt: it can't be predicted (a library's own collective, or more steps than that).
std::optional<Prediction> predict(const Plan& plan, const PlanQuery& query, const Links& links, double most_steps);

}  // namespace roda::engine

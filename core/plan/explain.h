// Words and JSON for `roda-info --explain`, and for the log: what would run, what lost and by how much.
#pragma once

#include <string>

#include "core/plan/cost.h"
#include "core/plan/planner.h"

namespace roda::engine {

// `links`: that predictions go by.
std::string explain(const Planner& planner, const PlanQuery& query, const Links& links, bool as_json);

// What runs at which size, whatever the query says of bytes: "allreduce by shm/oneshot below 64 KiB, by shm/direct
// above".
std::string by_size(Planner* planner, PlanQuery query);

}  // namespace roda::engine

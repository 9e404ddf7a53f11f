// Words and JSON for `roda-info --explain`: what would run, what lost and by how much.
#pragma once

#include <string>

#include "core/plan/cost.h"
#include "core/plan/planner.h"

namespace roda::engine {

// `links`: that predictions go by.
std::string explain(const Planner& planner, const PlanQuery& query, const Links& links, bool as_json);

}  // namespace roda::engine

// From nothing to a running engine.
#pragma once

#include <memory>
#include <vector>

#include "core/bootstrap/join.h"
#include "core/engine/engine.h"

namespace roda::engine {

// Collective over the job, which is `members` of what the launcher started: every rank gets an engine, or every rank
// that is still there gets an error. `round` counts the calls in this process: init, shutdown, init. `static_sets`:
// process sets as the caller listed them; sorted here, and refused when a rank is out of range or named twice. Blocks.
Status start_engine(const Members& members, std::vector<std::vector<std::int32_t>> static_sets, int round,
                    std::unique_ptr<Engine>* engine);

}  // namespace roda::engine

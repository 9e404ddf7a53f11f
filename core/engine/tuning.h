// What autotuning changes of the engine's settings.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "core/engine/engine.h"

namespace roda::engine {

// With that fusion threshold, where plans go by those rules (PlanQuery::rules); equal on all ranks.
negotiate::BucketRules bucket_rules(const Parts& parts, std::size_t threshold, std::uint32_t rules = 0);

// Null: this rank has nothing to tune, or nothing is to be tuned.
std::unique_ptr<tune::Tuner> make_tuner(const Parts& parts);

}  // namespace roda::engine

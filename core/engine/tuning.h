// What autotuning changes of the engine's settings.
#pragma once

#include <cstddef>
#include <memory>

#include "core/engine/engine.h"

namespace roda::engine {

// With that fusion threshold; equal on all ranks.
negotiate::BucketRules bucket_rules(const Parts& parts, std::size_t threshold);

// Null: this rank has nothing to tune, or nothing is to be tuned.
std::unique_ptr<tune::Tuner> make_tuner(const Parts& parts);

}  // namespace roda::engine

// Messages in a wire format, of data that are several tensors: each tensor is encoded as if it travelled alone.
//
// Threads: the holder of the engine's baton.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace roda::execute {

struct WireTensor {
  std::size_t begin = 0;   // element of the launch's vector, a multiple of schedule::kFormatGrain
  std::uint64_t seed = 0;  // of what stochastic formats draw
  // [elements, to the end of the last block] What this rank's messages have lost so far; null: it is not kept.
  float* residual = nullptr;
};

// What a stage works on of a launch's vector.
struct WireData {
  std::span<const WireTensor> tensors;  // ascending, the first one at 0; empty: one tensor, with the launch for a seed
  std::size_t begin = 0;                // element of the vector at which the stage's data begin
};

// A message of values[0..count), which are elements of the vector from `first` on. `first` is a multiple of
// schedule::kFormatGrain, and so is the place where the message goes on after each tensor but the last. `draw`: told
// apart from others of the launch. `lost_of`: Step's; what was lost before is added, and what is lost now is kept.
void encode(std::int32_t format, char* message, const float* values, std::size_t count, std::size_t first,
            std::span<const WireTensor> tensors, std::uint64_t draw, std::int32_t lost_of);

}  // namespace roda::execute

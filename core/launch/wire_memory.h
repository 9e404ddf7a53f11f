// What a process set keeps, by name, of tensors whose messages have a wire format. Alike on all members.
//
// Owned by the holder of the baton.
#pragma once

#include <cstdint>
#include <string>
#include <unordered_map>

#include "core/execute/wire.h"

namespace roda::engine {

class WireMemory {
 public:
  // The tensor, which begins at that element of its launch's vector and travels once more.
  execute::WireTensor next(const std::string& name, std::size_t begin);

 private:
  static constexpr std::size_t kMostNames = 1 << 16;  // tensors without a name have a new one each time
  std::unordered_map<std::string, std::uint64_t> seeds_;
};

}  // namespace roda::engine

// What a process set keeps, by name, of tensors whose messages have a wire format. Alike on all members, but for the
// values of residuals.
//
// Error feedback: what a rank's messages lost of a tensor it adds to what it sends of it next time, so that the mean
// over steps comes to the exact one. A tensor gets its residual when it travels for the second time.
//
// Owned by the holder of the baton.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <string>
#include <unordered_map>

#include "core/execute/wire.h"

namespace roda::engine {

// Memory for residuals, of all process sets of an engine.
struct ResidualBudget {
  std::size_t left = 0;  // bytes
  bool is_told = false;  // that some tensor goes without
  // Any thread: from its next launch on each tensor is as if it were new.
  std::atomic<std::uint64_t> resets{0};
};

class WireMemory {
 public:
  // The budget outlives it. Null: no residuals.
  explicit WireMemory(ResidualBudget* budget) : budget_(budget) {}
  ~WireMemory();
  WireMemory(const WireMemory&) = delete;
  WireMemory& operator=(const WireMemory&) = delete;

  // The tensor, which travels once more, without its place in the launch. `feeds_back`: with its residual, if there is
  // memory for one.
  execute::WireTensor next(const std::string& name, std::size_t elements, bool feeds_back);

 private:
  struct Free {
    void operator()(float* memory) const { std::free(memory); }
  };
  struct Kept {
    std::uint64_t seed = 0;
    std::unique_ptr<float[], Free> residual;  // NOLINT(*-avoid-c-arrays)
    std::size_t bytes = 0;                    // of it
    std::uint64_t resets = 0;                 // of the budget, when this began
    bool is_without = false;                  // for lack of memory
  };
  float* residual_of(const std::string& name, std::size_t elements, Kept* kept);
  void drop(Kept* kept);

  static constexpr std::size_t kMostNames = 1 << 16;  // tensors without a name have a new one each time
  ResidualBudget* const budget_;
  std::unordered_map<std::string, Kept> kept_;
};

}  // namespace roda::engine

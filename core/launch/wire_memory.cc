#include "core/launch/wire_memory.h"

#include <algorithm>
#include <utility>

#include "algorithms/schedule/format.h"
#include "plugins/base/hash.h"
#include "plugins/base/log.h"

namespace roda::engine {

WireMemory::~WireMemory() {
  for (auto& [name, kept] : kept_) drop(&kept);
}

execute::WireTensor WireMemory::next(const std::string& name, std::size_t elements, bool feeds_back) {
  if (kept_.size() >= kMostNames) {
    std::erase_if(kept_, [](const auto& kept) { return kept.second.residual == nullptr; });
  }
  const std::uint64_t resets = budget_ == nullptr ? 0 : budget_->resets.load(std::memory_order_relaxed);
  const auto [found, is_new] = kept_.try_emplace(name);
  Kept& kept = found->second;
  const bool begins = is_new || kept.resets != resets;
  if (begins) {
    drop(&kept);
    Hash hash;
    hash.add(std::string_view(name));
    kept = {.seed = hash.value(), .resets = resets};
  }
  kept.seed += 0x9e3779b97f4a7c15u;
  const bool has_residual = feeds_back && !begins && budget_ != nullptr;
  return {.seed = kept.seed, .residual = has_residual ? residual_of(name, elements, &kept) : nullptr};
}

// Of whole blocks, as messages are.
float* WireMemory::residual_of(const std::string& name, std::size_t elements, Kept* kept) {
  constexpr std::size_t grain = schedule::kFormatGrain;
  const std::size_t count = std::max<std::size_t>((elements + grain - 1) / grain, 1) * grain;
  if (kept->residual != nullptr && kept->bytes != count * sizeof(float)) drop(kept);
  if (kept->residual != nullptr) return kept->residual.get();
  // Zero, and pages that no message of this rank comes by are never there.
  if (count * sizeof(float) <= budget_->left) kept->residual.reset(static_cast<float*>(std::calloc(count, 4)));
  if (kept->residual != nullptr) {
    kept->bytes = count * sizeof(float);
    budget_->left -= kept->bytes;
    return kept->residual.get();
  }
  if (std::exchange(kept->is_without, true)) return nullptr;
  if (!std::exchange(budget_->is_told, true)) {
    RODA_LOG(warning,
             "tensor '{}' ({} bytes) goes without error feedback, and maybe others do: HOROVOD_WIRE_RESIDUAL_BYTES has "
             "{} bytes left. HOROVOD_LOG_LEVEL=debug names them all.",
             name, count * sizeof(float), budget_->left);
  }
  RODA_LOG(debug, "tensor '{}' goes without error feedback", name);
  return nullptr;
}

void WireMemory::drop(Kept* kept) {
  if (kept->residual == nullptr) return;
  kept->residual.reset();
  budget_->left += kept->bytes;
}

}  // namespace roda::engine

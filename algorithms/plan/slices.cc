#include "algorithms/plan/slices.h"

#include <algorithm>

namespace roda::plan {
namespace {

using schedule::Collective;

// Products of vectors are of whole ones, and a barrier has no data.
bool may_be_cut(Collective collective) {
  return collective != Collective::kAdasum && schedule::entry_of(collective).input != RODA_NOTHING;
}

Slices slices_of(const Stage& stage, const SliceSizes& sizes) {
  const schedule::Algorithm* algorithm = schedule::find_algorithm(stage.collective, stage.algorithm);
  if (algorithm == nullptr) return {0, 1, sizes.segment_bytes};  // a library's own knows
  return stage_slices(sizes, stage.collective, algorithm->needs);
}

}  // namespace

Slices stage_slices(const SliceSizes& sizes, Collective collective, std::uint32_t needs) {
  const std::uint32_t width = std::max(sizes.slices_in_flight, 1u);
  if (schedule::is_one_sided(needs)) {
    return {may_be_cut(collective) ? sizes.block_bytes : 0, std::min(width, kBlocksPerSlot), sizes.get_bytes};
  }
  const bool is_cut = schedule::is_cut(collective) && may_be_cut(collective);
  return {is_cut ? sizes.slice_bytes : 0, width, sizes.segment_bytes};
}

// While one rank's share is on the network, what the ranks of a host exchange should stay in their caches.
std::size_t level_slice(const SliceSizes& sizes, std::int64_t shares) {
  if (shares <= 1) return sizes.level_bytes;
  return std::min(sizes.level_bytes, static_cast<std::size_t>(shares) * sizes.share_bytes);
}

Cut cut_of(const Plan& plan, const SliceSizes& sizes) {
  if (plan.stages.size() == 1) return {slices_of(plan.stages.front(), sizes), {}};
  const std::size_t bytes = may_be_cut(plan.collective) ? sizes.level_bytes : 0;
  Cut cut{{bytes, kLevelSlicesInFlight, sizes.segment_bytes}, {}};
  for (const Stage& stage : plan.stages) cut.stages.push_back(slices_of(stage, sizes));
  return cut;
}

}  // namespace roda::plan

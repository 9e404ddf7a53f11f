#include "core/execute/compose/make.h"

#include <algorithm>

#include "algorithms/plan/routes.h"
#include "core/execute/compose/block_composition.h"
#include "core/execute/compose/broadcast_composition.h"
#include "core/execute/compose/share_composition.h"

namespace roda::execute {

std::unique_ptr<Composition> make_composition(const plan::Plan& plan, const plan::Grid& grid,
                                              const Rendition& rendition) {
  const auto& [self, root, pools, piece_bytes] = rendition;
  if (plan::has_routes(plan)) return std::make_unique<BlockComposition>(plan, grid, self, pools, piece_bytes);
  if (plan.collective == schedule::Collective::kBroadcast) {
    return std::make_unique<BroadcastComposition>(plan, grid, self, root, pools, piece_bytes);
  }
  return std::make_unique<ShareComposition>(plan, grid, self, pools, piece_bytes);
}

std::vector<std::vector<std::int32_t>> groups_of(const plan::Plan& plan, const plan::Grid& grid, int self, int root) {
  std::vector<std::vector<std::int32_t>> groups(plan.stages.size());
  if (plan::has_routes(plan)) {
    static_cast<void>(plan::follow(plan, grid, [&](std::size_t stage, std::int32_t rank, plan::Route&& route) {
      if (rank == self) groups[stage] = std::move(route.members);
    }));
  } else {
    const plan::Parts parts(plan, grid, root);
    for (std::size_t stage = 0; stage < groups.size(); ++stage) {
      const plan::Part part = parts.of(stage, self);
      if (part.has_work) groups[stage].assign(part.members.begin(), part.members.end());
    }
  }
  return groups;
}

}  // namespace roda::execute

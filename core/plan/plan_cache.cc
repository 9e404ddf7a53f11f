#include "core/plan/plan_cache.h"

#include <algorithm>
#include <iterator>
#include <set>
#include <utility>

namespace roda::engine {

// A stage goes by a share of the bytes: it passes an edge where they pass the edge times the shares.
const std::vector<std::size_t>& PlanCache::edges_of(const PlanQuery& q) {
  const auto [found, is_new] = edges_.try_emplace(q.shape_hash);
  std::vector<std::size_t>& edges = found->second;
  if (is_new) {
    std::set<std::size_t> shares{1};
    for (const char* composition : {"hierarchical", "torus"}) {
      std::size_t product = 1;
      if (q.shape == nullptr) break;
      const plan::Grid& grid = q.shape->grid(composition);
      for (std::int32_t axis = 0; axis <= grid.last_axis(); ++axis) {
        shares.insert(product *= static_cast<std::size_t>(grid.smallest(axis)));
      }
    }
    for (const std::size_t edge : table_edges_) {
      for (const std::size_t share : shares) {
        if (edge <= SIZE_MAX / share) edges.push_back(edge * share);
      }
    }
    std::sort(edges.begin(), edges.end());
  }
  return edges;
}

// The smallest size for which the plan is sure to be the query's.
PlanQuery PlanCache::key_of(const PlanQuery& q) {
  const std::vector<std::size_t>& edges = edges_of(q);
  const auto above = std::upper_bound(edges.begin(), edges.end(), q.bytes);
  PlanQuery key = q;
  key.bytes = above == edges.begin() ? 0 : *std::prev(above);
  key.shape = nullptr;  // may be gone before the plan
  return key;
}

const Plan* PlanCache::find(const PlanQuery& q) {
  const auto found = known_.find(key_of(q));
  return found == known_.end() ? nullptr : found->second;
}

const Plan* PlanCache::keep(const PlanQuery& q, Plan plan) {
  const auto is_equal = [&plan](const auto& known) {
    return known->stages == plan.stages && known->composition == plan.composition && known->places == plan.places &&
           known->staged == plan.staged;
  };
  auto found = std::find_if(plans_.begin(), plans_.end(), is_equal);
  if (found == plans_.end()) {
    plan.id = static_cast<std::uint32_t>(plans_.size() + 1);
    plan.text = plan.describe();
    found = plans_.insert(plans_.end(), std::make_unique<const Plan>(std::move(plan)));
  }
  if (known_.size() >= kMostKeys) known_.clear();  // process sets of other shapes come and go
  return known_[key_of(q)] = found->get();
}

}  // namespace roda::engine

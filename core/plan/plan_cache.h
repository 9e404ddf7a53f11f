// The plans that were made: each is kept once, and found again by what asks for it.
//
// Not thread-safe: the planner's.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "core/plan/plan.h"

namespace roda::engine {

class PlanCache {
 public:
  // `edges`: sizes at which the selection table's answer may change, ascending.
  explicit PlanCache(std::vector<std::size_t> edges) : table_edges_(std::move(edges)) {}

  // Sizes at which what is best for such queries may change, ascending: the table's, and where a stage passes one of
  // them. Valid for the cache's life.
  const std::vector<std::size_t>& edges_of(const PlanQuery& query);

  // Null: none is known for the query, nor for one of another size between the same two edges.
  const Plan* find(const PlanQuery& query);
  // Takes what was made for the query, numbers it and names it. Valid for the cache's life; equal plans are one.
  const Plan* keep(const PlanQuery& query, Plan plan);

 private:
  static constexpr std::size_t kMostKeys = 4096;

  PlanQuery key_of(const PlanQuery& query);

  std::vector<std::size_t> table_edges_;
  std::map<std::uint64_t, std::vector<std::size_t>> edges_;  // by shape: where some stage's choice may change
  std::map<PlanQuery, const Plan*> known_;
  std::vector<std::unique_ptr<const Plan>> plans_;  // every one that was handed out, once
};

}  // namespace roda::engine

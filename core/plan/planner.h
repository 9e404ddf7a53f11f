// Turns an agreed bucket into a plan: which transport, which algorithm, and what lost against it.
//
// Pure but for its cache: the answer depends on the selection table, the transports' published capabilities and the
// query, all of which are equal on all ranks. Not thread-safe: owned by the holder of the baton (or by a tool).
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "algorithms/select/table.h"
#include "core/plan/carriers.h"
#include "core/plan/composer.h"
#include "core/plan/plan.h"
#include "core/plan/ranking.h"
#include "plugins/base/status.h"

namespace roda::engine {

// The plans that were made: each is kept once, and found again by what asks for it.
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

class Planner {
 public:
  struct Policy {
    Composer::Hierarchy compositions;
    Ranking::Terms terms;
    Carriers::OnDevice on_device;
    // What plans for other machines take for granted, for explain().
    std::vector<std::string> assumptions;
  };
  // `transports`: those that may be used for host memory, in order of preference.
  Planner(select::Table table, Carriers::Transports transports, Policy policy);
  Planner(const Planner&) = delete;
  Planner& operator=(const Planner&) = delete;

  // The plan, or why there is none: one whose proved error is above the user's bound is refused. Valid for the
  // planner's life; equal plans are one. Options are ranked once for all sizes between two edges of the table.
  Status plan(const PlanQuery& query, const Plan** plan);

  // Sizes at which plan() may answer such queries otherwise, ascending.
  const std::vector<std::size_t>& edges_of(const PlanQuery& query) { return cache_.edges_of(query); }

  // Rules that come before the table's for queries that name what is returned. They may change the answer at the
  // edges of such queries alone. Zero where the text has no rule; the same number for the same text.
  std::uint32_t add_rules(const std::string& text);
  // Those rules, or none, behind one that has messages between hosts in the format. What they, or the table's, forbid
  // stays forbidden. Of RODA_WIRE_NONE: the
  // same rules.
  std::uint32_t rules_with(std::uint32_t rules, std::int32_t wire_format);

  // Whether what the plan runs on a device's memory takes the average itself: the query asks for one.
  bool averages(const PlanQuery& query);

  // Whether the plan works through a bucket where its tensors lie, so that fusing costs no copy (Stage::takes_buckets).
  bool fuses_without_copies(const PlanQuery& query);

  // Everything that was looked at for the query, in order: on devices what works on their memory comes first, then
  // what works in host memory, to which the data are copied and back.
  Ranking::Verdicts candidates(const PlanQuery& query) const;
  // The plan of one of them, as long as it is usable.
  Plan plan_of(const PlanQuery& query, const select::Option& option) const;

  // What the network between hosts turned out to be; before the first plan.
  void use_link(topology::Link link) { terms_.link = std::move(link); }
  const topology::Link& link() const { return terms_.link; }

  const select::Table& table() const { return tables_.front(); }
  const Carriers& carriers() const { return carriers_; }
  const std::vector<std::string>& assumptions() const { return assumptions_; }

 private:
  Ranking::Verdicts device_candidates(const PlanQuery& query) const;
  Status choose(const PlanQuery& query, Plan* plan) const;

  std::deque<select::Table> tables_;  // by PlanQuery::rules
  std::vector<std::string> texts_;    // of the rules in the tables behind the first
  std::map<std::pair<std::uint32_t, std::int32_t>, std::uint32_t> with_formats_;  // what rules_with() has said
  const Carriers carriers_;
  Ranking::Terms terms_;
  const Ranking ranking_;
  const Composer composer_;
  const std::vector<std::string> assumptions_;
  PlanCache cache_;
};

}  // namespace roda::engine

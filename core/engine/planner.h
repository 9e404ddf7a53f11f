// Turns an agreed bucket into a plan: which transport, which algorithm, and what lost against it.
//
// Pure but for its cache: the answer depends on the selection table, the transports' published capabilities and the
// query, all of which are equal on all ranks. Not thread-safe: owned by the holder of the baton (or by a tool).
#pragma once

#include <roda/abi/transport.h>

#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "algorithms/select/table.h"
#include "plugins/base/status.h"

namespace roda::engine {

struct PlanQuery {
  int collective = RODA_ALLREDUCE;
  int dtype = RODA_FLOAT32;
  int op = RODA_SUM;
  int memory_kind = RODA_MEMORY_HOST;
  std::size_t bytes = 0;
  int size = 1;           // ranks of the group
  bool same_host = true;  // all of them on one host
};

// One stage for now: flat over one transport. Hierarchies are lists of these over nested groups.
struct PlanStage {
  const roda_transport* transport = nullptr;
  std::string algorithm;
};

struct Plan {
  std::vector<PlanStage> stages;
};

class Planner {
 public:
  // `transports`: those that may be used, in order of preference. `named`: the user chose them by name, so that a
  // transport whose ranks are threads of one process is taken seriously.
  Planner(select::Table table, std::vector<const roda_transport*> transports);

  // The plan, or why there is none. The pointer is valid for the planner's life.
  Status plan(const PlanQuery& query, const Plan** plan);

  // Whether the plan works through a bucket where its tensors lie, so that fusing costs no copy (Stage::takes_buckets).
  bool fuses_without_copies(const PlanQuery& query);

  // Everything that was looked at for the query, in order.
  std::vector<select::Verdict> candidates(const PlanQuery& query) const;

  const select::Table& table() const { return table_; }
  const std::vector<const roda_transport*>& transports() const { return transports_; }

 private:
  using Key = std::tuple<int, int, int, int, std::size_t, int, bool>;
  static constexpr std::size_t kMostPlans = 4096;

  select::Table table_;
  std::vector<const roda_transport*> transports_;
  std::map<Key, Plan> plans_;
};

// The transports that may carry host tensors, in order of preference: those that reach only this host first (they share
// its memory), then the rest by name. `named` empty: all usable ones but those of a single process; else only that one.
std::vector<const roda_transport*> in_order_of_preference(std::vector<const roda_transport*> usable,
                                                          const std::string& named);

// Words and JSON for `roda-info --explain`.
std::string explain(const Planner& planner, const PlanQuery& query, bool as_json);

}  // namespace roda::engine

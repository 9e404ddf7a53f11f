// What could carry a query, in a selection table's order, with the reason of each that can't.
//
// Values, equal on all ranks; any thread. Refers to tables and carriers that live longer.
#pragma once

#include <deque>
#include <limits>
#include <map>
#include <string>
#include <vector>

#include "algorithms/select/table.h"
#include "algorithms/topology/link.h"
#include "core/plan/carriers.h"

namespace roda::engine {

class Ranking {
 public:
  using Verdicts = std::vector<select::Verdict>;
  // By name of a composition that the collective has: why it can't run, or should not; empty: it can.
  using Obstacles = std::map<std::string, std::string>;

  struct Terms {
    // Reductions of floating-point numbers go by what sums every element up in rank order: RODA_DETERMINISTIC.
    bool in_rank_order = false;
    // That wire formats make sums differ by, as schedule::error_bound(): HOROVOD_WIRE_BOUND.
    double most_error = std::numeric_limits<double>::infinity();
    topology::Link link;  // between hosts
  };

  // `tables`: by PlanQuery::rules.
  Ranking(const std::deque<select::Table>& tables, const Carriers& carriers, const Terms& terms)
      : tables_(tables), carriers_(carriers), terms_(terms) {}

  // The verdicts for tensors in host memory, over these transports.
  Verdicts in_memory(const PlanQuery& query, const Carriers::Transports& transports, const Obstacles& obstacles) const;
  // The verdicts for tensors on devices: libraries that work on their memory. Schedules work in host memory: staged()
  // has them.
  Verdicts on_device(const PlanQuery& query, const Obstacles& obstacles) const;
  Verdicts staged(const PlanQuery& query, const Obstacles& obstacles_in_memory) const;
  // The verdicts for one stage of a composition for tensors on devices. `whole`: the collective that is composed.
  // Outside hosts another transport than the one inside them is taken: that one could have carried the whole.
  Verdicts stage_on_device(const PlanQuery& part, bool is_outside, int whole) const;

 private:
  Verdicts rank(const PlanQuery& query, std::vector<select::Offer> offers, const Obstacles& obstacles) const;

  const std::deque<select::Table>& tables_;
  const Carriers& carriers_;
  const Terms& terms_;
};

}  // namespace roda::engine

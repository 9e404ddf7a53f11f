// Compositions of collectives inside hosts and across them: their stages, and why one can't run.
//
// Values, equal on all ranks; any thread. Refers to a ranking and carriers that live longer.
#pragma once

#include <string>

#include "core/plan/carriers.h"
#include "core/plan/ranking.h"
#include "plugins/base/status.h"

namespace roda::engine {

class Composer {
 public:
  struct Hierarchy {
    // Compose even where the ranks of a host have nothing faster than what reaches everywhere, and on devices even
    // where each host has one rank: HOROVOD_HIERARCHICAL_ALLGATHER for allgathers, HOROVOD_HIERARCHICAL_ALLREDUCE for
    // all else. A torus is always composed where it is asked for.
    bool always_hierarchical_allreduce = false;
    bool always_hierarchical_allgather = false;
    // Averages inside hosts, Adasum between them, in host memory too: a composition.
    bool hierarchical_adasum = false;
  };

  Composer(const Ranking& ranking, const Carriers& carriers, const Hierarchy& hierarchy)
      : ranking_(ranking), carriers_(carriers), hierarchy_(hierarchy) {}

  // Why each composition of the query's collective can't run on the query's memory, by name. `transports`: those of
  // stages in host memory.
  Ranking::Obstacles obstacles(const PlanQuery& query, const Carriers::Transports& transports) const;
  // Its stages, each by the first option of the table that can run in every group of it: one for all groups, so that
  // the plan is one value.
  Status compose(const PlanQuery& query, const std::string& name, const Carriers::Transports& transports,
                 Plan* plan) const;
  // Whether the composition comes before a library's own collective on devices, where compositions are asked for. Names
  // of transports alone ask for none where every rank is alone on its host.
  bool comes_first(const PlanQuery& query, const std::string& name) const;

 private:
  Status choose_stage(const PlanQuery& whole, const plan::Grid& grid, std::size_t number,
                      const Carriers::Transports& transports, Plan* plan) const;
  bool is_asked_for(int collective) const;  // by a knob
  std::string obstacle(const PlanQuery& query, const std::string& name, const Carriers::Transports& transports) const;
  std::string adasum_obstacle(const PlanQuery& query) const;
  std::string host_obstacle(const PlanQuery& query, const Plan& plan, const plan::Grid& grid) const;

  const Ranking& ranking_;
  const Carriers& carriers_;
  const Hierarchy hierarchy_;
};

}  // namespace roda::engine

// Turns an agreed bucket into a plan: which transport, which algorithm, and what lost against it.
//
// Pure but for its cache: the answer depends on the selection table, the transports' published capabilities and the
// query, all of which are equal on all ranks. Not thread-safe: owned by the holder of the baton (or by a tool).
#pragma once

#include <roda/abi/transport.h>

#include <map>
#include <string>
#include <vector>

#include "algorithms/select/table.h"
#include "core/plan/plan.h"
#include "core/plan/plan_cache.h"
#include "core/plan/shape.h"
#include "plugins/base/status.h"

namespace roda::engine {

// What may carry tensors on devices.
struct DeviceChoice {
  std::vector<const roda_transport*> transports;  // in order of preference
  // Compositions before anything else: the user asked for them, or named beside what works on devices what does not.
  bool composes = false;
  bool is_mixed = false;  // the latter
};

class Planner {
 public:
  using Transports = std::vector<const roda_transport*>;
  struct Options {
    // Compose even where the ranks of a host have nothing faster than what reaches everywhere, and on devices even
    // where each host has one rank: HOROVOD_HIERARCHICAL_ALLGATHER for allgathers, HOROVOD_HIERARCHICAL_ALLREDUCE for
    // all else. A torus is always composed where it is asked for.
    bool always_hierarchical_allreduce = false;
    bool always_hierarchical_allgather = false;
    // Averages inside hosts, Adasum between them, in host memory too: a composition.
    bool hierarchical_adasum = false;
    // Reductions of floating-point numbers go by what sums every element up in rank order: RODA_DETERMINISTIC.
    bool deterministic = false;
    // By collective; what is missing goes by the transports for host memory.
    std::map<schedule::Collective, DeviceChoice> on_device;
    // What plans for other machines take for granted, for explain().
    std::vector<std::string> assumptions;
  };
  // `transports`: those that may be used, in order of preference. `named`: the user chose them by name, so that a
  // transport whose ranks are threads of one process is taken seriously.
  Planner(select::Table table, std::vector<const roda_transport*> transports, Options options);

  // The plan, or why there is none. Valid for the planner's life; equal plans are one. Options are ranked once for all
  // sizes between two edges of the table.
  Status plan(const PlanQuery& query, const Plan** plan);

  // Whether what the plan runs on a device's memory takes the average itself: the query asks for one.
  bool averages(const PlanQuery& query);

  // Whether the plan works through a bucket where its tensors lie, so that fusing costs no copy (Stage::takes_buckets).
  bool fuses_without_copies(const PlanQuery& query);

  // Everything that was looked at for the query, in order.
  std::vector<select::Verdict> candidates(const PlanQuery& query) const;
  // The plan of one of them, as long as it is usable.
  Plan plan_of(const PlanQuery& query, const select::Option& option) const;

  const select::Table& table() const { return table_; }
  const std::vector<const roda_transport*>& transports() const { return transports_; }
  const std::vector<std::string>& assumptions() const { return options_.assumptions; }
  // What may carry tensors of the collective on devices.
  const DeviceChoice& on_device(int collective) const;
  // Whether a transport of them has the collective natively on the memory of the query.
  bool works_on_device(const PlanQuery& query) const;
  // Whether sums can be taken there: an Adasum is as on GPUs of Horovod's then, not as on CPUs.
  bool adds_on_device(const PlanQuery& query) const;

 private:
  select::Query table_query(const PlanQuery& query) const;
  // Of tensors in host memory.
  std::vector<select::Verdict> host_candidates(const PlanQuery& query, const Transports& transports) const;
  // Of tensors on devices (planner_device.cc).
  std::vector<select::Verdict> device_candidates(const PlanQuery& query) const;
  std::vector<select::Verdict> staged_candidates(const PlanQuery& query) const;
  std::vector<select::Verdict> stage_candidates(const PlanQuery& part, bool is_outside, const Plan& plan) const;
  bool is_asked_for(int collective) const;  // a composition, by a knob
  bool comes_first(const PlanQuery& query, const select::Verdict& verdict) const;
  std::string device_obstacle(const PlanQuery& query, const std::string& composition) const;
  Plan device_plan_of(const PlanQuery& query, const select::Option& option) const;
  Plan host_plan_of(const PlanQuery& query, const select::Option& option, const Transports& transports) const;
  Transports staging_transports(const PlanQuery& query) const;
  const roda_transport* transport_named(const std::string& name) const;
  Status choose(const PlanQuery& query, Plan* plan) const;
  // `transports`: of stages in host memory.
  Status compose(const PlanQuery& query, const std::string& name, const Transports& transports, Plan* plan) const;
  Status choose_stage(const PlanQuery& whole, const plan::Grid& grid, std::size_t number, const Transports& transports,
                      Plan* plan) const;
  std::string adasum_obstacle(const PlanQuery& query) const;
  std::string obstacle(const PlanQuery& query, const std::string& composition, const Transports& transports) const;
  static std::string routes_obstacle(const PlanQuery& query, const Plan& plan);

  select::Table table_;
  std::vector<const roda_transport*> transports_;
  Options options_;
  PlanCache cache_;
};

// The transports that may carry host tensors, in order of preference: those that reach only this host first (they share
// its memory), then the rest by name. `named` empty: all usable ones but those of a single process; else only those.
std::vector<const roda_transport*> in_order_of_preference(std::vector<const roda_transport*> usable,
                                                          const std::vector<std::string>& named);

}  // namespace roda::engine

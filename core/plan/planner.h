// Turns an agreed bucket into a plan: which transport, which algorithm, and what lost against it.
//
// Pure but for its cache: the answer depends on the selection table, the transports' published capabilities and the
// query, all of which are equal on all ranks. Not thread-safe: owned by the holder of the baton (or by a tool).
#pragma once

#include <roda/abi/transport.h>

#include <compare>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include "algorithms/select/table.h"
#include "core/plan/shape.h"
#include "plugins/base/status.h"

namespace roda::engine {

struct PlanQuery {
  int collective = RODA_ALLREDUCE;
  int dtype = RODA_FLOAT32;
  int op = RODA_SUM;
  int memory_kind = RODA_MEMORY_HOST;
  std::size_t bytes = 0;
  int size = 1;                  // ranks of the group
  int hosts = 1;                 // that they are on
  const Shape* shape = nullptr;  // how they lie there; null: no composition is asked for. Lives during the call.
  std::uint64_t shape_hash = 0;  // what tells it from others: kept longer than the shape

  // The ranks of the shape, and how they lie.
  void lie_on(const Shape& members) {
    shape = &members;
    shape_hash = members.hash();
    size = members.size();
    hosts = members.hosts();
  }

  std::strong_ordering operator<=>(const PlanQuery& other) const { return key() <=> other.key(); }
  bool operator==(const PlanQuery& other) const { return key() == other.key(); }

 private:
  using Key = std::tuple<int, int, int, int, std::size_t, int, int, std::uint64_t>;
  Key key() const { return {collective, dtype, op, memory_kind, bytes, size, hosts, shape_hash}; }
};

// Adasum's two forms; see core/execute/adasum.
inline constexpr const char* kVectorHalving = "vector_halving";
inline constexpr const char* kVectorHalvingAcross = "vector_halving_across_hosts";

// One collective, and the transport that carries it.
struct PlanStage {
  int collective = RODA_ALLREDUCE;
  const roda_transport* transport = nullptr;
  std::string algorithm;
  bool staged = false;  // data on a device go through host memory for it, though not for all other stages

  friend bool operator==(const PlanStage&, const PlanStage&) = default;
};

// One stage over all ranks, or a composition. The same value on every rank.
struct Plan {
  std::vector<PlanStage> stages;
  plan::Plan composition;           // of the same stages, over shape's grid of its name; without stages: there is one
  std::vector<std::string> places;  // of each stage, in words: "on each host"; "" for all ranks
  bool staged = false;              // data on a device go through host memory for the whole of it
  // What plan() hands out has these two besides.
  std::uint32_t id = 0;  // equal for equal plans of one planner, from 1
  std::string text;      // describe(), for people

  bool is_composed() const { return !composition.stages.empty(); }
  // "reducescatter on each host by shm/direct, then ..."
  std::string describe() const;
};

// What `rank` of the shape does in the plan, which is not Adasum's: the value that is run, proved and printed.
schedule::Schedule schedule_of(const Plan& plan, const Shape& shape, int rank, int root);

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
    // Averages inside hosts, Adasum between them, in host memory too.
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
  std::vector<select::Verdict> device_adasum_candidates(const PlanQuery& query) const;
  std::vector<select::Verdict> staged_candidates(const PlanQuery& query) const;
  std::vector<select::Verdict> stage_candidates(const PlanQuery& part, bool is_outside, const Plan& plan) const;
  bool is_asked_for(int collective) const;  // a composition, by a knob
  bool comes_first(const PlanQuery& query, const select::Verdict& verdict) const;
  std::string device_obstacle(const PlanQuery& query, const std::string& composition) const;
  Plan device_adasum_plan_of(const PlanQuery& query, const select::Option& option) const;
  const roda_transport* adder_inside(const PlanQuery& query) const;
  Plan device_plan_of(const PlanQuery& query, const select::Option& option) const;
  Plan host_plan_of(const PlanQuery& query, const select::Option& option, const Transports& transports) const;
  Transports staging_transports(const PlanQuery& query) const;
  const roda_transport* transport_named(const std::string& name) const;
  static constexpr std::size_t kMostKeys = 4096;
  Status choose(const PlanQuery& query, Plan* plan) const;
  // `transports`: of stages in host memory.
  Status compose(const PlanQuery& query, const std::string& name, const Transports& transports, Plan* plan) const;
  Status choose_stage(const PlanQuery& whole, const GridFacts& facts, std::size_t number, const Transports& transports,
                      Plan* plan) const;
  std::vector<select::Verdict> adasum_candidates(const PlanQuery& query, bool across_hosts) const;
  std::string obstacle(const PlanQuery& query, const std::string& composition, const Transports& transports) const;
  static std::string routes_obstacle(const PlanQuery& query, const Plan& plan);

  select::Table table_;
  std::vector<const roda_transport*> transports_;
  Options options_;
  // The smallest size for which the plan is sure to be the query's: what plans are remembered by.
  std::size_t least_bytes_like(const PlanQuery& query);
  const Plan* intern(Plan plan);

  std::map<PlanQuery, const Plan*> known_;
  std::map<std::uint64_t, std::vector<std::size_t>> edges_;  // by shape: where some stage's choice may change
  std::vector<std::unique_ptr<const Plan>> plans_;           // every one that was handed out, once
};

// The transports that may carry host tensors, in order of preference: those that reach only this host first (they share
// its memory), then the rest by name. `named` empty: all usable ones but those of a single process; else only those.
std::vector<const roda_transport*> in_order_of_preference(std::vector<const roda_transport*> usable,
                                                          const std::vector<std::string>& named);

}  // namespace roda::engine

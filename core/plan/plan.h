// What is asked of the planner, and what it answers.
//
// Values; any thread.
#pragma once

#include <roda/abi/transport.h>

#include <compare>
#include <cstdint>
#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include "algorithms/plan/grid.h"
#include "algorithms/plan/plan.h"
#include "algorithms/schedule/program.h"
#include "algorithms/topology/topology.h"
#include "plugins/base/status.h"

namespace roda::engine {

// The grids that compositions of a process set are laid over: what follows from its members' levels in the topology.
// The same on every member but for `self`.
class Shape {
 public:
  Shape() : Shape({{topology::kHost, {0}}}, 0) {}
  // `levels`: of the members (levels_of). `self`: this rank among the members; -1: not a member.
  Shape(const std::vector<topology::Level>& levels, int self);

  int size() const { return nested_.ranks(); }
  int hosts() const { return static_cast<int>(table_.size()); }
  int self() const { return self_; }
  // Members by host, hosts in the order of their first members.
  const std::vector<std::vector<int>>& table() const { return table_; }
  // A hash of the shape without `self`: equal on all members.
  std::uint64_t hash() const { return hash_; }

  // What a composition of that name is laid over: the nested levels; for "between_hosts" hosts alone; for "torus" a
  // torus of hosts and the ranks in them (of two factors of the hosts, where each has one rank).
  const plan::Grid& grid(const std::string& composition) const {
    return composition == "torus" ? torus_ : composition == "between_hosts" ? by_host_ : nested_;
  }
  // Why there is no such grid; empty: there is one.
  std::string missing(const std::string& composition) const { return composition == "torus" ? no_torus_ : ""; }

 private:
  void lay_out_torus();

  int self_ = -1;
  std::uint64_t hash_ = 0;
  std::vector<std::vector<int>> table_;
  plan::Grid nested_;
  plan::Grid by_host_;
  plan::Grid torus_;
  std::string no_torus_;
};

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
  std::uint32_t rules = 0;       // of Planner::add_rules; 0: the selection table alone
  bool is_staged = false;        // the tensors are on a device, and copied to host memory and back; no key

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
  using Key = std::tuple<int, int, int, int, std::size_t, int, int, std::uint64_t, std::uint32_t>;
  Key key() const { return {collective, dtype, op, memory_kind, bytes, size, hosts, shape_hash, rules}; }
};

// One collective, and the transport that carries it.
struct PlanStage {
  int collective = RODA_ALLREDUCE;
  const roda_transport* transport = nullptr;
  const schedule::Algorithm* algorithm = nullptr;  // null: the transport's own collective
  bool staged = false;  // data on a device go through host memory for it, though not for all other stages

  const char* algorithm_name() const { return algorithm == nullptr ? schedule::kNative : algorithm->name; }
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

// What the stages in wire formats come to.
struct Formats {
  std::string names;                    // "int8"; empty: there is no such stage
  std::size_t meant = 0;                // bytes that a rank would send in them unformatted
  std::size_t sent = 0;                 // bytes that it sends
  std::int32_t worst = RODA_WIRE_NONE;  // of them, by its error
  int roundings = 0;                    // that a rank's contribution goes through, at most
  double bound = 0;                     // of what they make sums differ by: schedule::error_bound()
};
Formats formats_of(const Plan& plan, const PlanQuery& query);

// Whether ranks may add what their messages lost to what they send next (error feedback): messages are int8 or int4,
// and no sum is rounded by two ranks, which would come to other bits each.
bool feeds_back(const Plan& plan, const Shape& shape);

// What `rank` of the shape does in the plan: the value that is run, proved and printed. A collective that is staged is
// cut into slices, as a composition of one call. RODA_ERR_UNSUPPORTED: an algorithm does not run on its group.
Status program_of(const Plan& plan, const Shape& shape, int rank, int root,
                  std::shared_ptr<const schedule::Program>* program);

}  // namespace roda::engine

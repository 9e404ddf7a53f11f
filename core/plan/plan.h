// What is asked of the planner, and what it answers.
//
// Values; any thread.
#pragma once

#include <roda/abi/transport.h>

#include <compare>
#include <cstdint>
#include <string>
#include <tuple>
#include <vector>

#include "algorithms/plan/plan.h"
#include "core/plan/shape.h"

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

// What `rank` of the shape does in the plan: the value that is run, proved and printed.
schedule::Schedule schedule_of(const Plan& plan, const Shape& shape, int rank, int root);

}  // namespace roda::engine

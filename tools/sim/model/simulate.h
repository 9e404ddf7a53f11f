// How long a collective takes on a cluster, by the model of playback.h.
//
// What is too long to be simulated is simulated short: rounds that repeat and pieces of the data that follow each other
// settle into a rhythm, so three runs of growing length are compared, and when the second and third differ by as much
// as the first and second the rest is continued at that rate. If they do not, longer runs are tried, up to the whole.
//
// A prediction, not a measurement. Pure functions, any thread.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "algorithms/plan/plan.h"
#include "algorithms/schedule/schedule.h"
#include "tools/sim/model/cluster.h"

namespace roda::sim {

struct Scenario {
  Cluster cluster;
  Topology topology;  // without hosts: the ranks are laid out on the cluster
  plan::Plan plan;
  plan::Grid grid;
  std::vector<schedule::Schedule> schedules;  // a user's, in place of plan and grid: one for each rank
  // Allreduce and broadcast: of the vector. Allgather: of the result; reduce-scatter and alltoall: of the input.
  double bytes = 0;
};

enum class Folding : std::uint8_t {
  kAuto,    // where it saves much
  kNever,   // every rank by itself, every round and piece
  kAlways,  // also where the whole would take few ranks, or few steps
};

// How one stage cuts its share of a piece into parts.
struct StageCut {
  double bytes = 0;  // of a part; 0: it is not cut
  std::int32_t in_flight = 1;
  double segment_bytes = 256 << 10;
};

struct SimulationOptions {
  Folding folding = Folding::kAuto;
  double slice_bytes = 1 << 20;  // of a piece; 0: the whole in one
  std::int32_t in_flight = 4;    // pieces
  double segment_bytes = 256 << 10;
  std::vector<StageCut> stages = {};  // one for each of the plan's; none: they cut nothing
  bool trace = false;
  double most_steps = 150e6;  // that may be simulated; more is refused with its estimate
};

// `how`, with the slices that the executor would run it in (plan/slices.h).
SimulationOptions executed(const Scenario& scenario, SimulationOptions how = {});

struct LevelTraffic {
  std::string name;
  double bytes = 0;     // of messages whose ends meet at this level
  double messages = 0;  // signals included
};

// A stretch of the critical path.
struct PathStep {
  std::string what;       // "recv_reduce", "wire"
  std::int32_t rank = 0;  // whose processor, or the sender
  std::int32_t peer = -1;
  std::int32_t stage = 0;
  std::int32_t piece = 0;
  std::string level;  // of a wire
  double begin_us = 0;
  double end_us = 0;
};

struct Outcome {
  double seconds = 0;
  double algbw_GBps = 0;
  double busbw_GBps = 0;  // as nccl-tests define it
  std::vector<LevelTraffic> levels;
  std::int32_t ranks = 0;
  std::int32_t classes = 0;  // of ranks that were simulated
  std::int64_t pieces = 1;
  bool extrapolated = false;   // rounds or pieces were continued at their settled rate
  double steps = 0;            // simulated
  std::vector<PathStep> path;  // when traced; of the run that was simulated, first to last
};

// nullopt: *outcome is filled in. Else why not: a scenario that does not fit, or one that is too large, with an
// estimate.
std::optional<std::string> simulate(const Scenario& scenario, const SimulationOptions& options, Outcome* outcome);

// busbw / algbw
double bus_factor(schedule::Collective collective, std::int32_t ranks);

struct Dimension {
  std::int64_t length = 1;  // asked for
  std::int64_t base = 1;    // first length tried; below it nothing is expected to have settled
  std::int64_t stride = 1;  // a multiple of the rhythm's period, as far as that is known
  double tolerance = 1e-5;  // by which two steps of a settled rhythm may differ, relative
};

using Measure = std::function<std::optional<double>(const std::vector<std::int64_t>& lengths)>;

// What is measured in all dimensions; nullopt: it failed, and so does the extrapolation. *whole tells whether the full
// lengths were measured.
std::optional<double> extrapolate(const std::vector<Dimension>& dimensions, const Measure& measure, bool* whole);

}  // namespace roda::sim

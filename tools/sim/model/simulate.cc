#include "tools/sim/model/simulate.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "algorithms/plan/slices.h"
#include "tools/sim/model/actors.h"
#include "tools/sim/model/costs.h"
#include "tools/sim/model/playback.h"
#include "tools/sim/model/trace.h"

namespace roda::sim {

using schedule::Collective;

namespace {

constexpr double kRoundingOfTimes = 16;  // picoseconds, of sums of rounded times

// Extrapolates over the dimensions behind those whose `lengths` are given.
std::optional<double> extrapolate_rest(const std::vector<Dimension>& dimensions, const Measure& measure,
                                       const std::vector<std::int64_t>& lengths, bool* whole) {
  if (lengths.size() == dimensions.size()) return measure(lengths);
  const Dimension& dimension = dimensions[lengths.size()];
  const auto at = [&](std::int64_t length) {
    std::vector<std::int64_t> more = lengths;
    more.push_back(length);
    return extrapolate_rest(dimensions, measure, more, whole);
  };
  std::int64_t stride = dimension.stride;
  for (std::int64_t base = dimension.base; base + 3 * stride < dimension.length; base *= 2, stride *= 2) {
    const std::int64_t first = base + (dimension.length - base) % stride;
    double times[3];
    for (std::int64_t i = 0; i < 3; ++i) {
      const auto time = at(first + i * stride);
      if (!time) return time;
      times[i] = *time;
    }
    const double step = (times[2] - times[0]) / 2;
    if (2 * std::abs(times[2] - times[1] - step) > dimension.tolerance * step + kRoundingOfTimes) continue;
    *whole = false;
    const std::int64_t rest = (dimension.length - first) / stride - 2;
    return times[2] + step * static_cast<double>(rest);
  }
  return at(dimension.length);
}

constexpr double kPicosecond = 1e-12;
constexpr double kLongestTransfer = 1e4;  // s: the clock of picoseconds ends after 10^6
constexpr std::int32_t kFewRanks = 64;    // are not folded unless asked for
constexpr std::int64_t kManyRepeats = 96;
// Pieces that share links beat against each other; rounds do not.
constexpr double kSamePiece = 2e-3;
constexpr double kSamePieceRoughly = 5e-2;  // where the whole would cost more steps than this:
constexpr double kCostly = 2e6;
constexpr double kCheap = 3e5;  // steps: the whole is simulated

class Simulation {
 public:
  Simulation(const Scenario& scenario, const SimulationOptions& options, Outcome* outcome)
      : scenario_(scenario), options_(options), outcome_(*outcome) {}

  std::optional<std::string> run() {
    if (auto wrong = prepare()) return wrong;
    std::vector<Dimension> dimensions = {pieces_dimension()};
    for (const std::int64_t repeat : repeats_) dimensions.push_back(rounds_dimension(repeat));
    bool whole = true;
    const auto time = extrapolate(
        dimensions, [&](const std::vector<std::int64_t>& lengths) { return simulate(lengths); }, &whole);
    if (!time) return *failure_;
    outcome_.extrapolated = !whole;
    outcome_.seconds = *time * kPicosecond;
    if (outcome_.seconds > 0) outcome_.algbw_GBps = scenario_.bytes / outcome_.seconds / 1e9;
    outcome_.busbw_GBps = outcome_.algbw_GBps * bus_factor(collective(), outcome_.ranks);
    count_traffic();
    return std::nullopt;
  }

 private:
  bool from_user() const { return !scenario_.schedules.empty(); }
  Collective collective() const {
    return from_user() ? scenario_.schedules.front().collective : scenario_.plan.collective;
  }

  bool may_be_cut() const {
    if (from_user()) return schedule::is_cut(collective());
    return plan::cut_of(scenario_.plan).whole.bytes > 0;
  }

  std::optional<std::string> prepare() {
    if (auto wrong = wrong_with(scenario_.cluster)) return wrong;
    const std::int32_t ranks =
        from_user() ? static_cast<std::int32_t>(scenario_.schedules.size()) : scenario_.grid.ranks();
    if (scenario_.topology.hosts.empty()) {
      if (auto wrong = why_no_room(scenario_.cluster, ranks)) return wrong;
    }
    for (const Level& level : scenario_.cluster.levels) {
      if (scenario_.bytes / 1e9 / level.GBps > kLongestTransfer) {
        return "level " + level.name + " is too slow for the data: one rank's transfer takes hours";
      }
    }
    outcome_ = Outcome();
    outcome_.ranks = ranks;
    const Topology laid = scenario_.topology.hosts.empty() ? lay_out(scenario_.cluster, ranks) : scenario_.topology;
    const Routes routes(scenario_.cluster, laid);
    const bool each = options_.folding == Folding::kNever;
    const RankCosts programs =
        from_user() ? RankCosts(scenario_.schedules) : RankCosts(scenario_.plan, scenario_.grid, each);
    if (programs.wrong()) return programs.wrong();
    actors_ = actors_for(programs, routes);
    outcome_.classes = static_cast<std::int32_t>(actors_.actors.size());
    if (may_be_cut() && options_.slice_bytes > 0) {
      outcome_.pieces = std::max<std::int64_t>(1, std::llround(std::ceil(scenario_.bytes / options_.slice_bytes)));
    }
    find_repeats();
    return std::nullopt;
  }

  Actors actors_for(const RankCosts& programs, const Routes& routes) const {
    const bool few = options_.folding == Folding::kAuto && programs.ranks() <= kFewRanks;
    if (options_.folding == Folding::kNever || few) return every_rank(programs, routes);
    // Folding that hardly folds costs more than it saves.
    const std::int32_t most = options_.folding == Folding::kAlways ? programs.ranks() : programs.ranks() / 2;
    if (auto classes = every_class(programs, routes, most)) return *std::move(classes);
    return every_rank(programs, routes);
  }

  void find_repeats() {
    if (plays_whole()) return;
    std::set<std::int64_t> repeats;
    for (const Actor& actor : actors_.actors) {
      for (const auto& stage : actor.stages) {
        for (const auto& lane : stage) {
          for (const Rounds& rounds : lane) repeats.insert(rounds.repeat);
        }
      }
    }
    for (const std::int64_t repeat : repeats) {
      if (repeat > kManyRepeats) repeats_.push_back(repeat);
    }
  }

  // Whether nothing is shortened.
  bool plays_whole() const {
    if (options_.folding == Folding::kAuto) return steps(playback_options({outcome_.pieces})) <= kCheap;
    return options_.folding == Folding::kNever;
  }

  Dimension pieces_dimension() const {
    const std::int64_t stride = std::max(options_.in_flight, 1);
    if (repeats_.empty() && plays_whole()) return {outcome_.pieces, outcome_.pieces, stride, kSamePiece};
    std::vector<std::int64_t> whole = {outcome_.pieces};
    whole.insert(whole.end(), repeats_.begin(), repeats_.end());
    const bool is_costly = steps(playback_options(whole)) > kCostly;
    return {outcome_.pieces, 2 * stride, stride, is_costly ? kSamePieceRoughly : kSamePiece};
  }

  // An event of one rank in a round comes to its neighbour in the next: a rhythm can be as long as there are classes.
  Dimension rounds_dimension(std::int64_t repeat) const {
    const auto classes = static_cast<std::int64_t>(actors_.actors.size());
    return {repeat, std::max<std::int64_t>(32, 2 * classes), std::max<std::int64_t>(24, classes)};
  }

  PlaybackOptions playback_options(const std::vector<std::int64_t>& lengths) const {
    PlaybackOptions engine;
    engine.pieces = static_cast<std::int32_t>(lengths[0]);
    engine.piece_bytes = scenario_.bytes / static_cast<double>(outcome_.pieces);
    engine.in_flight = options_.in_flight;
    engine.stages = options_.stages;
    engine.stages.resize(actors_.actors.front().stages.size(), {0, 1, options_.segment_bytes});
    for (std::size_t i = 0; i < repeats_.size(); ++i) engine.shortened[repeats_[i]] = lengths[i + 1];
    return engine;
  }

  // Messages, segments counted.
  double steps(const PlaybackOptions& engine) const {
    double steps = 0;
    for (const Actor& actor : actors_.actors) {
      for_each_rounds(actor, [&](std::size_t stage, const Rounds& rounds) {
        const auto found = engine.shortened.find(rounds.repeat);
        const auto turns = static_cast<double>(found == engine.shortened.end() ? rounds.repeat : found->second);
        const double parts = parts_of(actor, stage, engine);
        const double segment = engine.stages[stage].segment_bytes;
        for (const Cost& op : rounds.ops) {
          const double bytes = op.bytes * engine.piece_bytes / parts;
          steps += turns * parts * std::clamp(bytes / segment, 1.0, static_cast<double>(kMostSegments));
        }
      });
    }
    return steps * engine.pieces;
  }

  std::optional<double> simulate(const std::vector<std::int64_t>& lengths) {
    const PlaybackOptions engine = playback_options(lengths);
    const double count = steps(engine);
    if (outcome_.steps + count > options_.most_steps) {
      constexpr double kStepsPerSecond = 1.5e6;
      constexpr double kBytesPerStep = 40;
      failure_ = "too large: " + std::to_string(actors_.actors.size()) + " different ranks of " +
                 std::to_string(outcome_.ranks) + " have to run about " + std::to_string(std::llround(count / 1e6)) +
                 " million steps, for which the simulator would need about " +
                 std::to_string(std::llround(std::max(1.0, count / kStepsPerSecond))) + " s and " +
                 std::to_string(std::llround(std::max(1.0, count * kBytesPerStep / 1e6))) +
                 " MB; allow it with a larger limit of steps, or choose larger slices";
      return std::nullopt;
    }
    outcome_.steps += count;
    Trace trace;
    const bool traced = options_.trace && outcome_.path.empty();
    Playback playback(actors_, scenario_.cluster, engine, traced ? &trace : nullptr);
    Time end = 0;
    if (!playback.run(&end)) {
      failure_ = "the schedules do not end: " + playback.stuck();
      return std::nullopt;
    }
    if (traced) outcome_.path = path_steps(trace, actors_, scenario_.cluster);
    return static_cast<double>(end);
  }

  static void for_each_rounds(const Actor& actor, auto f) {
    for (std::size_t stage = 0; stage < actor.stages.size(); ++stage) {
      for (const auto& lane : actor.stages[stage]) {
        for (const Rounds& rounds : lane) f(stage, rounds);
      }
    }
  }

  void count_traffic() {
    for (const Level& level : scenario_.cluster.levels) outcome_.levels.push_back({level.name, 0, 0});
    const PlaybackOptions engine = playback_options(std::vector<std::int64_t>(1 + repeats_.size(), outcome_.pieces));
    for (const Actor& actor : actors_.actors) {
      for_each_rounds(actor, [&](std::size_t stage, const Rounds& rounds) {
        const double parts = parts_of(actor, stage, engine);
        const double part = engine.piece_bytes / parts;
        const double times = static_cast<double>(actor.count * rounds.repeat * outcome_.pieces) * parts;
        for (const Cost& op : rounds.ops) {
          const StepKind kind = op.kind;
          const bool receives = kind == StepKind::kRecv || kind == StepKind::kRecvReduce || kind == StepKind::kWait;
          if (receives || schedule::is_local(kind)) continue;
          const Slot& slot = actor.slots[static_cast<std::size_t>(op.peer)];
          LevelTraffic& level = outcome_.levels[static_cast<std::size_t>(slot.level)];
          level.bytes += times * op.bytes * op.wire * part;
          level.messages +=
              times * std::max(1.0, std::ceil(op.bytes * part / engine.stages[stage].segment_bytes - 1e-9));
        }
      });
    }
  }

  const Scenario& scenario_;
  const SimulationOptions& options_;
  Outcome& outcome_;
  Actors actors_;
  std::vector<std::int64_t> repeats_;
  std::optional<std::string> failure_;
};

// Into which an allreduce's levels cut what they work on.
std::int64_t shares_of(const Scenario& scenario) {
  std::int64_t shares = 1;
  if (scenario.plan.collective != Collective::kAllreduce) return shares;
  for (const plan::Stage& stage : scenario.plan.stages) {
    if (stage.collective == Collective::kReduceScatter) shares *= scenario.grid.smallest(stage.axis);
  }
  return shares;
}

}  // namespace

SimulationOptions executed(const Scenario& scenario, SimulationOptions how) {
  plan::Cut cut;
  if (scenario.schedules.empty()) {
    plan::SliceSizes sizes;
    sizes.level_bytes = plan::level_slice(sizes, shares_of(scenario));
    cut = plan::cut_of(scenario.plan, sizes);
  } else {
    const schedule::Schedule& first = scenario.schedules.front();
    cut.whole = plan::stage_slices({}, first.collective, schedule::needs_of(first));
  }
  how.slice_bytes = static_cast<double>(cut.whole.bytes);
  how.in_flight = static_cast<std::int32_t>(cut.whole.in_flight);
  how.segment_bytes = static_cast<double>(cut.whole.segment_bytes);
  how.stages.clear();
  for (const plan::Slices& stage : cut.stages) {
    how.stages.push_back({static_cast<double>(stage.bytes), static_cast<std::int32_t>(stage.in_flight),
                          static_cast<double>(stage.segment_bytes)});
  }
  return how;
}

std::optional<double> extrapolate(const std::vector<Dimension>& dimensions, const Measure& measure, bool* whole) {
  *whole = true;
  return extrapolate_rest(dimensions, measure, {}, whole);
}

double bus_factor(Collective collective, std::int32_t ranks) {
  const double others = static_cast<double>(ranks - 1) / ranks;
  const roda_collective_entry& data = schedule::entry_of(collective);
  if (data.input == RODA_NOTHING || schedule::is(collective, RODA_ROOTED)) return 1;
  return data.input == RODA_WHOLE ? 2 * others : others;
}

std::optional<std::string> simulate(const Scenario& scenario, const SimulationOptions& options, Outcome* outcome) {
  return Simulation(scenario, options, outcome).run();
}

}  // namespace roda::sim

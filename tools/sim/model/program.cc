#include "tools/sim/model/program.h"

#include <algorithm>
#include <numeric>
#include <utility>

namespace roda::sim {

using schedule::Algorithm;
using schedule::Collective;
using schedule::Range;
using schedule::Schedule;
using schedule::Space;
using schedule::Step;

namespace {

// A send this many steps back is taken to have left.
constexpr std::size_t kSendsRemembered = 8;
constexpr std::size_t kLongestPeriod = 8;
constexpr std::int64_t kFewestRepeats = 4;

// Schedules longer than this are not made for every rank.
constexpr std::int64_t kLongSchedule = 1 << 11;
// Steps that differ from each other, of every one of 100,000 ranks: more would not fit.
constexpr std::size_t kMostDistinctSteps = 1 << 10;
// Ranks of which it is looked whether they do what rank 0 does, turned around the circle.
constexpr std::int32_t kSamples = 3;

class Translator {
 public:
  Translator(const Schedule& schedule, std::int32_t shares, bool relative)
      : schedule_(schedule), shares_(shares), relative_(relative) {}

  std::vector<Op> lane(const std::vector<Step>& steps) {
    std::vector<Op> ops;
    for (std::size_t i = 0; i < steps.size(); ++i) {
      const Step& step = steps[i];
      Op op = op_of(step);
      const bool had_data = step.src.count > 0 || step.dst.count > 0;
      const bool is_small = step.src.space == Space::kProducts || step.dst.space == Space::kProducts;
      if (had_data && op.fraction == 0 && !is_small) continue;
      op.blocked_by = blocked_by(steps, i);
      append(step, op, &ops);
    }
    return ops;
  }

 private:
  Op op_of(const Step& step) const {
    if (schedule::is_signal(step.kind)) return {step.kind, static_cast<std::int8_t>(step.signal)};
    const bool reads = step.kind == StepKind::kSend || step.kind == StepKind::kPut || step.kind == StepKind::kDots;
    return {step.kind, 0, 0, 0, fraction(reads ? step.src : step.dst)};
  }

  double fraction(const Range& range) const {
    const double count = range.space == Space::kProducts ? 0 : range.count;
    const roda_collective_entry& data = schedule::entry_of(schedule_.collective);
    if (data.input == RODA_NOTHING) return 0;
    if (data.input == RODA_WHOLE || schedule::is_between_pairs(schedule_.collective)) return count / schedule_.chunks;
    const bool own = data.output == RODA_OWN_PART && range.space == Space::kOutput;
    const std::int32_t first = own ? schedule_.rank : range.first % schedule_.chunks;
    const std::int32_t full = std::min(first + range.count, shares_) - std::min(first, shares_);
    return static_cast<double>(full) / shares_;
  }

  // How many sends ago was the one that still reads what the step writes?
  std::int8_t blocked_by(const std::vector<Step>& steps, std::size_t index) const {
    if (!schedule::writes_locally(steps[index].kind)) return 0;
    std::int8_t sends = 0;
    for (std::size_t back = 1; back <= std::min(index, kSendsRemembered); ++back) {
      const Step& earlier = steps[index - back];
      if (earlier.kind != StepKind::kSend || (earlier.src.count > 0 && fraction(earlier.src) == 0)) continue;
      ++sends;
      if (schedule::overlap(earlier.src, steps[index].dst)) return sends;
    }
    return 0;
  }

  // A signal to all peers, or a wait for all, is one after the other, beginning with the right neighbour.
  void append(const Step& step, Op op, std::vector<Op>* ops) const {
    const bool local = schedule::is_local(op.kind);
    const bool all = !local && step.peer == schedule::kAllPeers;
    const std::int32_t count = all ? schedule_.size - 1 : 1;
    for (std::int32_t i = 0; i < count; ++i) {
      const std::int32_t peer = all ? (schedule_.rank + 1 + i) % schedule_.size : step.peer;
      op.follows = i > 0;
      op.peer = local ? 0 : relative_ ? (peer - schedule_.rank + schedule_.size) % schedule_.size : peer;
      ops->push_back(op);
    }
  }

  const Schedule& schedule_;
  std::int32_t shares_;
  bool relative_;
};

// How often do the `period` ops from `begin` on follow each other?
std::int64_t repeats(const std::vector<Op>& ops, std::size_t begin, std::size_t period) {
  std::size_t end = begin + period;
  while (end < ops.size() && ops[end] == ops[end - period]) ++end;
  return end > ops.size() ? 0 : static_cast<std::int64_t>((end - begin) / period);
}

LaneProgram compress(const std::vector<Op>& ops) {
  LaneProgram lane;
  bool open = false;  // the last block takes more ops
  for (std::size_t i = 0; i < ops.size();) {
    std::size_t period = 0;
    std::int64_t count = 0;
    for (std::size_t length = 1; length <= kLongestPeriod && count < kFewestRepeats; ++length) {
      period = length;
      count = repeats(ops, i, length);
    }
    if (count < kFewestRepeats) {
      if (!open) lane.emplace_back();
      lane.back().ops.push_back(ops[i++]);
      open = true;
      continue;
    }
    const auto begin = ops.begin() + static_cast<std::ptrdiff_t>(i);
    lane.push_back({{begin, begin + static_cast<std::ptrdiff_t>(period)}, count});
    i += period * static_cast<std::size_t>(count);
    open = false;
  }
  return lane;
}

std::int64_t steps_in(const Schedule& schedule) {
  std::int64_t steps = 0;
  for (const schedule::Lane& lane : schedule.lanes) steps += static_cast<std::int64_t>(lane.steps.size());
  return steps;
}

// `shares`: as in plan::Part; chunks per rank beyond it are empty, and nothing of them is sent. Chunks of allreduce and
// broadcast are all alike.
Program program_of(const Schedule& schedule, std::int32_t shares, bool relative) {
  Program program;
  program.relative = relative;
  Translator translator(schedule, shares, relative);
  for (const schedule::Lane& lane : schedule.lanes) program.lanes.push_back(compress(translator.lane(lane.steps)));
  return program;
}

}  // namespace

RankPrograms::RankPrograms(const plan::Plan& plan, const plan::Grid& grid, bool each_rank)
    : ranks_(grid.ranks()), stages_(plan.stages), travels_(plan::has_routes(plan)) {
  const plan::Compiler compiler(plan, grid);
  if (stages_.size() == 1) {
    add_only_turns(compiler);
  } else {
    for (std::int32_t rank = 0; rank < ranks_; ++rank) add_turns(compiler.schedule(rank));
    if (travels_) even_out();
  }
  make_all(each_rank);
}

// One call: its schedules would say whose each block is, and that is the square of the ranks.
void RankPrograms::add_only_turns(const plan::Compiler& compiler) {
  for (std::int32_t rank = 0; rank < ranks_; ++rank) {
    const plan::Part part = compiler.part(0, rank);
    const auto size = part.has_work ? static_cast<std::int32_t>(part.members->size()) : 0;
    turns_.push_back({{part.has_work ? part.members : nullptr, part.index, part.root, size, 1}});
  }
}

void RankPrograms::add_turns(const Schedule& rank) {
  std::vector<Turn>& turns = turns_.emplace_back(stages_.size());
  std::size_t next = 0;
  for (const schedule::Step& step : rank.lanes.front().steps) {
    if (step.kind != schedule::StepKind::kCall) continue;
    const schedule::Call& call = rank.calls[next++];
    Turn& turn = turns[static_cast<std::size_t>(call.stage)];
    turn = {call.members, call.index, call.root, call.size(), 1};
    if (schedule::is(rank.collective, RODA_ROOTED)) continue;
    const bool gathers = call.collective == Collective::kAllgather;
    turn.fraction = static_cast<double>(gathers ? step.dst.count : step.src.count) / rank.chunks;
    const std::vector<std::int32_t>& ends = gathers ? call.dst_ends : call.src_ends;
    if (!travels_ && !ends.empty()) {
      turn.shares = static_cast<std::int32_t>(std::ranges::find(ends, ends.back()) - ends.begin()) + 1;
    }
  }
}

// Each member of a group is taken to have as much as the one that has most.
void RankPrograms::even_out() {
  std::map<std::pair<std::size_t, const std::vector<std::int32_t>*>, double> most;
  const auto each = [this](const auto& use) {
    for (std::vector<Turn>& turns : turns_) {
      for (std::size_t stage = 0; stage < turns.size(); ++stage) use(stage, turns[stage]);
    }
  };
  each([&most](std::size_t stage, const Turn& turn) {
    double& known = most[{stage, turn.members.get()}];
    known = std::max(known, turn.fraction);
  });
  each([&most](std::size_t stage, Turn& turn) { turn.fraction = most[{stage, turn.members.get()}]; });
}

RankPrograms::RankPrograms(std::vector<Schedule> ranks) : ranks_(static_cast<std::int32_t>(ranks.size())) {
  stages_.push_back({ranks.front().collective, ranks.front().algorithm, 0});
  std::vector<std::int32_t> everybody(ranks.size());
  std::iota(everybody.begin(), everybody.end(), 0);
  const auto members = std::make_shared<const std::vector<std::int32_t>>(std::move(everybody));
  for (const Schedule& schedule : ranks) {
    turns_.push_back({{members, schedule.rank, 0, ranks_, 1}});
    programs_.emplace(key_of(0, turns_.back().front()), program_of(schedule, ranks_, false));
  }
}

RankPrograms::Key RankPrograms::key_of(std::size_t stage, const Turn& turn) const {
  return {stage, turn.index, static_cast<std::int32_t>(turn.members->size()), turn.shares, turn.root};
}

void RankPrograms::make_all(bool each_rank) {
  for (std::size_t stage = 0; stage < stages_.size() && !wrong_; ++stage) {
    for (std::size_t rank = 0; rank < turns_.size() && !wrong_; ++rank) {
      if (turns_[rank][stage].members != nullptr) make(stage, turns_[rank][stage], each_rank);
    }
  }
}

void RankPrograms::make(std::size_t stage, const Turn& turn, bool each_rank) {
  const Key own = key_of(stage, turn);
  Key all = own;
  std::get<1>(all) = -1;
  if (programs_.count(all) != 0 || programs_.count(own) != 0) return;
  const Algorithm* algorithm = schedule::find_algorithm(stages_[stage].collective, stages_[stage].algorithm);
  if (algorithm == nullptr) {
    wrong_ = std::string("there is no algorithm ") + schedule::collective_name(stages_[stage].collective) + "/" +
             stages_[stage].algorithm;
    return;
  }
  const auto size = std::get<2>(own);
  const Schedule schedule = algorithm->make(turn.index, size, turn.root);
  if (!each_rank && steps_in(schedule) > kLongSchedule) {
    if (make_relative(*algorithm, all)) return;
    wrong_ = "too large: " + std::string(schedule::collective_name(algorithm->collective)) + "/" + algorithm->name +
             " of " + std::to_string(size) + " ranks has " + std::to_string(steps_in(schedule)) +
             " steps on each that do not repeat: " + std::to_string(steps_in(schedule) * size) + " in all";
    return;
  }
  programs_.emplace(own, program_of(schedule, turn.shares, false));
}

// Whole shares only: with empty chunks the circle has a seam.
bool RankPrograms::make_relative(const Algorithm& algorithm, const Key& key) {
  const auto [stage, index, size, shares, root] = key;
  const roda_collective_entry& data = schedule::entry_of(algorithm.collective);
  const bool has_shares = data.input == RODA_OWN_PART || data.output == RODA_OWN_PART;
  if (schedule::is(algorithm.collective, RODA_ROOTED) || (has_shares && shares != size)) return false;
  Program first = program_of(algorithm.make(0, size, 0), shares, true);
  std::size_t distinct = 0;
  for (const LaneProgram& lane : first.lanes) {
    for (const Block& block : lane) distinct += block.ops.size();
  }
  if (distinct > kMostDistinctSteps) return false;
  for (std::int32_t sample = 1; sample <= kSamples; ++sample) {
    const auto rank = static_cast<std::int32_t>(static_cast<std::int64_t>(size - 1) * sample / kSamples);
    if (program_of(algorithm.make(rank, size, 0), shares, true) != first) return false;
  }
  programs_.emplace(key, std::move(first));
  return true;
}

StagePart RankPrograms::part(std::size_t stage, std::int32_t rank) const {
  const Turn& turn = turns_[static_cast<std::size_t>(rank)][stage];
  if (turn.members == nullptr) return {};
  Key key = key_of(stage, turn);
  auto found = programs_.find(key);
  std::get<1>(key) = -1;
  if (found == programs_.end()) found = programs_.find(key);
  return {found == programs_.end() ? nullptr : &found->second, turn.members, turn.index, turn.fraction};
}

}  // namespace roda::sim

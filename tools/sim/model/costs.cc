#include "tools/sim/model/costs.h"

#include <algorithm>
#include <numeric>
#include <span>
#include <utility>

#include "algorithms/index.h"
#include "algorithms/schedule/compiler.h"

namespace roda::sim {

using schedule::Algorithm;
using schedule::Collective;
using schedule::Operand;
using schedule::OpKind;
using schedule::Schedule;
using schedule::Space;

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
// Ranks whose programs are played beside each other: the square of them must fit.
constexpr std::int32_t kMostOneSided = 1 << 11;

// How often do the `period` ops from `begin` on follow each other?
std::int64_t repeats(const std::vector<Cost>& ops, std::size_t begin, std::size_t period) {
  std::size_t end = begin + period;
  while (end < ops.size() && ops[end] == ops[end - period]) ++end;
  return end > ops.size() ? 0 : static_cast<std::int64_t>((end - begin) / period);
}

LaneCosts compress(const std::vector<Cost>& ops) {
  LaneCosts lane;
  bool open = false;  // the last rounds take more ops
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

// The ops of one program as costs.
class Translator {
 public:
  // `shares`: members that chunks belong to, of collectives whose chunks do. Chunks beyond them are empty, and nothing
  // of these is sent.
  Translator(const schedule::Program& program, std::int32_t shares, bool relative)
      : program_(program), shares_(shares), relative_(relative) {}

  ProgramCosts run() {
    ProgramCosts made;
    made.relative = relative_;
    for (const schedule::LaneProgram& lane : program_.lanes) made.lanes.push_back(compress(ops_of(lane.ops)));
    made.copy_in = of_runs(program_.copy_in);
    made.copy_out = of_runs(program_.copy_out);
    made.carry = of_runs(program_.one_sided() ? program_.carry : program_.contribution);
    return made;
  }

 private:
  std::vector<Cost> ops_of(const std::vector<schedule::Op>& steps) {
    std::vector<Cost> ops;
    for (std::size_t i = 0; i < steps.size(); ++i) {
      const schedule::Op& step = steps[i];
      Cost op;
      op.kind = step_of(program_, step);
      op.signal = static_cast<std::int8_t>(step.signal);
      op.peer = step.peer;
      const bool reads = step.kind == OpKind::kSend || step.kind == OpKind::kPut || step.kind == OpKind::kDots;
      const Operand& data = reads ? step.src : step.dst;
      op.bytes = fraction(data);
      const roda_wire_format_entry& format = roda_wire_formats[step.format];
      op.wire = (8.0 * format.scale / format.block + format.bits) / 32;
      op.encodes = step.kind == OpKind::kSend && step.format != RODA_WIRE_NONE && !is_rounded(steps, i);
      const bool had_data = step.src.count > 0 || step.dst.count > 0;
      const bool is_small = step.src.space == Space::kProducts || step.dst.space == Space::kProducts;
      if (had_data && op.bytes == 0 && !is_small) continue;
      op.blocked_by = blocked_by(steps, i);
      op.follows = i > 0 && schedule::is_signal(op.kind) && steps[i - 1].step == step.step;
      step.kind == OpKind::kCombine ? combine(step, op, &ops) : append(op, &ops);
    }
    return ops;
  }

  // Whether a kRound has just encoded what the op sends, as it stays for others that send it besides.
  static bool is_rounded(const std::vector<schedule::Op>& steps, std::size_t i) {
    std::size_t before = i;
    while (before > 0 && steps[before - 1].kind == OpKind::kSend) --before;
    return before > 0 && steps[before - 1].kind == OpKind::kRound && steps[before - 1].dst == steps[i].src;
  }

  // A local source that is written over costs nothing, nor does one that is read on the way.
  void combine(const schedule::Op& step, Cost op, std::vector<Cost>* ops) const {
    const auto sources = program_.sources_of(step);
    for (std::size_t i = 0; i < sources.size(); ++i) {
      op.kind = step_of(program_, step, i);
      if (op.kind == StepKind::kCopy && sources.size() > 1) continue;
      op.peer = sources[i].peer;
      append(op, ops);
      op.blocked_by = 0;
    }
    if (!step.publishes) return;
    op.kind = StepKind::kCopy;
    append(op, ops);
  }

  double fraction(const Operand& operand) const {
    if (operand.space == Space::kProducts) return 0;
    const schedule::ChunkRun run{operand.space, operand.first, operand.count};
    return of_runs({&run, 1});
  }
  // The share of the stage's data that the chunks are. Chunks are counted before they are divided: equal ranks come to
  // equal bits.
  double of_runs(std::span<const schedule::ChunkRun> runs) const {
    const roda_collective_entry& data = schedule::entry_of(program_.collective);
    if (data.input == RODA_NOTHING) return 0;
    const bool are_alike = data.input == RODA_WHOLE || schedule::is_between_pairs(program_.collective);
    std::int32_t full = 0;
    for (const schedule::ChunkRun& run : runs) {
      const bool is_own = data.output == RODA_OWN_PART && run.space == Space::kOutput;
      const std::int32_t first = is_own ? program_.rank : run.first;
      full += are_alike ? run.count : std::min(first + run.count, shares_) - std::min(first, shares_);
    }
    return static_cast<double>(full) / (are_alike ? program_.chunks : shares_);
  }

  // How many sends ago was the one that still reads what the op writes?
  std::int8_t blocked_by(const std::vector<schedule::Op>& ops, std::size_t index) const {
    if (!schedule::writes_locally(step_of(program_, ops[index]))) return 0;
    std::int8_t sends = 0;
    for (std::size_t back = 1; back <= std::min(index, kSendsRemembered); ++back) {
      const schedule::Op& earlier = ops[index - back];
      if (earlier.kind != OpKind::kSend || (earlier.src.count > 0 && fraction(earlier.src) == 0)) continue;
      ++sends;
      if (schedule::overlap(earlier.src, ops[index].dst)) return sends;
    }
    return 0;
  }

  // A signal to all peers, or a wait for all, is one after the other, beginning with the right neighbour.
  void append(Cost op, std::vector<Cost>* ops) const {
    const bool local = schedule::is_local(op.kind);
    const bool all = !local && op.peer == schedule::kAllPeers;
    const std::int32_t count = all ? program_.size - 1 : 1, named = op.peer;
    for (std::int32_t i = 0; i < count; ++i) {
      const std::int32_t peer = all ? (program_.rank + 1 + i) % program_.size : named;
      op.follows |= i > 0;
      op.peer = local ? -1 : relative_ ? (peer - program_.rank + program_.size) % program_.size : peer;
      ops->push_back(op);
    }
  }

  const schedule::Program& program_;
  std::int32_t shares_;
  bool relative_;
};

std::int64_t steps_in(const Schedule& schedule) {
  std::int64_t steps = 0;
  for (const schedule::Lane& lane : schedule.lanes) steps += static_cast<std::int64_t>(lane.steps.size());
  return steps;
}

std::string too_large(const Algorithm& algorithm) {
  return "too large: " + std::string(schedule::collective_name(algorithm.collective)) + "/" + algorithm.name;
}

// The costs of a schedule of messages: one rank's is enough.
ProgramCosts costs_of(const Algorithm& algorithm, Schedule rank, std::int32_t shares, bool relative) {
  std::vector<Schedule> alone;
  alone.push_back(std::move(rank));
  return Translator(schedule::compile(alone, algorithm.needs).ranks.front(), shares, relative).run();
}

}  // namespace

RankCosts::RankCosts(const plan::Plan& plan, const plan::Grid& grid, bool each_rank)
    : ranks_(grid.ranks()), stages_(plan.stages), travels_(plan::has_routes(plan)) {
  if (stages_.size() == 1) {
    add_only_parts(grid);
  } else {
    const plan::Compiler compiler(plan, grid);
    for (std::int32_t rank = 0; rank < ranks_; ++rank) add_parts(compiler.outline(rank));
    if (travels_) even_out();
  }
  make_all(each_rank);
}

// One call: its schedules would say whose each block is, and that is the square of the ranks.
void RankCosts::add_only_parts(const plan::Grid& grid) {
  const std::int32_t axis = stages_.front().axis;
  for (std::int32_t rank = 0; rank < ranks_; ++rank) {
    const schedule::Members& members = grid.group(axis, rank);
    const bool has_work = grid.has_work(axis, members);
    const auto size = has_work ? static_cast<std::int32_t>(members->size()) : 0;
    parts_.push_back({{has_work ? members : nullptr, grid.index(axis, rank), 0, size}});
  }
}

// The calls and copies of the program that the executor runs.
void RankCosts::add_parts(const schedule::Program& rank) {
  std::vector<StagePart>& parts = parts_.emplace_back(stages_.size());
  double copied = 0;
  StagePart* last = nullptr;
  for (const schedule::Op& op : rank.lanes.front().ops) {
    if (op.kind != OpKind::kCall) {
      copied += static_cast<double>(op.dst.count) / rank.chunks;
      continue;
    }
    const schedule::Call& call = rank.calls[op.source];
    last = &parts[static_cast<std::size_t>(call.stage)];
    *last = {call.members, call.program->rank, call.program->root, call.program->size};
    last->before = std::exchange(copied, 0);
    const bool is_users = op.src.space == Space::kInput && op.dst.space == Space::kOutput;  // one memory
    last->in_place = is_users || schedule::overlap(op.src, op.dst);
    if (schedule::is(rank.collective, RODA_ROOTED)) continue;
    const bool gathers = call.program->collective == Collective::kAllgather;
    last->fraction = static_cast<double>(gathers ? op.dst.count : op.src.count) / rank.chunks;
    const std::vector<std::int32_t>& ends = gathers ? call.dst_ends : call.src_ends;
    if (!travels_ && !ends.empty()) {
      last->shares = static_cast<std::int32_t>(std::ranges::find(ends, ends.back()) - ends.begin()) + 1;
    }
  }
  if (last != nullptr) last->after = copied;
}

// Each member of a group is taken to have as much as the one that has most.
void RankCosts::even_out() {
  std::map<std::pair<std::size_t, const std::vector<std::int32_t>*>, double> most;
  const auto each = [this](const auto& use) {
    for (std::vector<StagePart>& parts : parts_) {
      for (std::size_t stage = 0; stage < parts.size(); ++stage) use(stage, parts[stage]);
    }
  };
  each([&most](std::size_t stage, const StagePart& part) {
    double& known = most[{stage, part.members.get()}];
    known = std::max(known, part.fraction);
  });
  each([&most](std::size_t stage, StagePart& part) { part.fraction = most[{stage, part.members.get()}]; });
}

RankCosts::RankCosts(std::vector<Schedule> ranks) : ranks_(static_cast<std::int32_t>(ranks.size())) {
  stages_.push_back({ranks.front().collective, ranks.front().algorithm, 0});
  std::vector<std::int32_t> everybody(ranks.size());
  std::iota(everybody.begin(), everybody.end(), 0);
  const auto members = std::make_shared<const std::vector<std::int32_t>>(std::move(everybody));
  const schedule::Compiled made = schedule::compile(ranks, schedule::needs_of(ranks));
  wrong_ = made.wrong;
  for (const schedule::Program& program : made.ranks) {
    StagePart& part = parts_.emplace_back(1, StagePart{members, program.rank, 0, ranks_}).front();
    if (wrong_) continue;
    const auto added = programs_.emplace(key_of(0, part), Translator(program, ranks_, false).run());
    take(&added.first->second, &part);
  }
}

RankCosts::Key RankCosts::key_of(std::size_t stage, const StagePart& part) {
  return {stage, part.index, static_cast<std::int32_t>(part.members->size()), part.shares, part.root};
}

const ProgramCosts* RankCosts::find(std::size_t stage, const StagePart& part) const {
  Key key = key_of(stage, part);
  auto found = programs_.find(key);
  std::get<1>(key) = -1;
  if (found == programs_.end()) found = programs_.find(key);
  return found == programs_.end() ? nullptr : &found->second;
}

void RankCosts::take(const ProgramCosts* program, StagePart* part) {
  part->program = program;
  part->before += (program->copy_in + (part->in_place ? 0 : program->carry)) * part->fraction;
  part->after += program->copy_out * part->fraction;
}

void RankCosts::make_all(bool each_rank) {
  for (std::size_t stage = 0; stage < stages_.size() && !wrong_; ++stage) {
    for (std::size_t rank = 0; rank < parts_.size() && !wrong_; ++rank) {
      StagePart& part = parts_[rank][stage];
      if (part.members == nullptr) continue;
      if (find(stage, part) == nullptr) make(stage, part, each_rank);
      if (!wrong_) take(find(stage, part), &part);
    }
  }
}

void RankCosts::make(std::size_t stage, const StagePart& part, bool each_rank) {
  const Key own = key_of(stage, part);
  Key all = own;
  std::get<1>(all) = -1;
  const Algorithm* algorithm = schedule::find_algorithm(stages_[stage].collective, stages_[stage].algorithm);
  if (algorithm == nullptr) {
    wrong_ = std::string("there is no algorithm ") + schedule::collective_name(stages_[stage].collective) + "/" +
             stages_[stage].algorithm;
    return;
  }
  const auto size = std::get<2>(own);
  const bool one_sided = schedule::is_one_sided(algorithm->needs);
  Schedule rank = algorithm->make(part.index, size, part.root);
  const std::int64_t steps = steps_in(rank);
  if (!each_rank && steps > kLongSchedule) {
    if (!one_sided && make_relative(*algorithm, all)) return;
    wrong_ = too_large(*algorithm) + " of " + std::to_string(size) + " ranks has " + std::to_string(steps) +
             " steps on each that do not repeat: " + std::to_string(steps * size) + " in all";
    return;
  }
  if (one_sided) return make_one_sided(*algorithm, own);
  programs_.emplace(own, costs_of(*algorithm, std::move(rank), part.shares, false));
}

// Where data lie that peers touch shows when the programs of all ranks are played: they are made at once.
void RankCosts::make_one_sided(const Algorithm& algorithm, const Key& key) {
  const auto [stage, index, size, shares, root] = key;
  if (size > kMostOneSided) {
    wrong_ = too_large(algorithm) + " works on the memory of its peers: what is copied there shows when the programs " +
             "of all ranks are played, of " + std::to_string(kMostOneSided) + " at most, not of " +
             std::to_string(size);
    return;
  }
  std::vector<Schedule> ranks;
  for (std::int32_t rank = 0; rank < size; ++rank) ranks.push_back(algorithm.make(rank, size, root));
  for (const schedule::Program& program : schedule::compile(ranks, algorithm.needs).ranks) {
    programs_.emplace(Key{stage, program.rank, size, shares, root}, Translator(program, shares, false).run());
  }
}

// Whole shares only: with empty chunks the circle has a seam.
bool RankCosts::make_relative(const Algorithm& algorithm, const Key& key) {
  const auto [stage, index, size, shares, root] = key;
  const roda_collective_entry& data = schedule::entry_of(algorithm.collective);
  const bool has_shares = data.input == RODA_OWN_PART || data.output == RODA_OWN_PART;
  if (schedule::is(algorithm.collective, RODA_ROOTED) || (has_shares && shares != size)) return false;
  ProgramCosts first = costs_of(algorithm, algorithm.make(0, size, 0), shares, true);
  std::size_t distinct = 0;
  for (const LaneCosts& lane : first.lanes) {
    for (const Rounds& rounds : lane) distinct += rounds.ops.size();
  }
  if (distinct > kMostDistinctSteps) return false;
  for (std::int32_t sample = 1; sample <= kSamples; ++sample) {
    const auto rank = static_cast<std::int32_t>(static_cast<std::int64_t>(size - 1) * sample / kSamples);
    if (costs_of(algorithm, algorithm.make(rank, size, 0), shares, true) != first) return false;
  }
  programs_.emplace(key, std::move(first));
  return true;
}

}  // namespace roda::sim

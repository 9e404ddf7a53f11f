#include "algorithms/schedule/program.h"

#include <algorithm>
#include <iterator>
#include <numeric>
#include <utility>

#include "algorithms/index.h"
#include "algorithms/schedule/compiler.h"

namespace roda::schedule {

std::int32_t chunks_of(Collective collective, Space space, std::int32_t chunks, std::int32_t size) {
  const roda_collective_entry& data = entry_of(collective);
  switch (space == Space::kInput ? data.input : data.output) {
    case RODA_WHOLE:
      return chunks;
    case RODA_ALL_PARTS:
      return size;
    case RODA_OWN_PART:  // an input is a chunk of the output
      return space == Space::kOutput ? 1 : 0;
    default:
      return 0;
  }
}

namespace {

// By OpKind, but for kCall; of what a kCombine is made of, the simplest.
constexpr StepKind kStepKinds[] = {StepKind::kSend,  StepKind::kRecv,   StepKind::kRecvReduce, StepKind::kCopy,
                                   StepKind::kPut,   StepKind::kSignal, StepKind::kWait,       StepKind::kDots,
                                   StepKind::kWeigh, StepKind::kRound};

OpKind kind_of(StepKind kind) {
  const auto* found = std::ranges::find(kStepKinds, kind);
  return found == std::end(kStepKinds) ? OpKind::kCombine : static_cast<OpKind>(found - std::begin(kStepKinds));
}

// One lane of the schedule into ops.
class LaneCompiler {
 public:
  LaneCompiler(const Schedule& schedule, std::size_t lane, Program* program)
      : schedule_(schedule), lane_(lane), program_(*program) {}

  std::optional<std::string> run() {
    const auto& steps = schedule_.lanes[lane_].steps;
    for (std::size_t i = 0; i < steps.size(); ++i) {
      step_ = static_cast<std::uint32_t>(i);
      if (auto wrong = add(steps[i])) return schedule_.algorithm + ": " + *wrong;
    }
    program_.lanes.push_back(std::move(out_));
    return std::nullopt;
  }

 private:
  // Scratch chunk i is as long as chunk i % chunks of the data, or as the one of this rank's number.
  std::optional<std::string> bind(const Range& range, Operand* operand) const {
    *operand = {range.space, range.space, range.first, range.count};
    if (range.space != Space::kScratch || range.count == 0) return std::nullopt;
    operand->data = program_.scratch_of;
    const std::int32_t chunks = schedule_.scratch_is_own ? 1 : schedule_.chunks;
    operand->copy = range.first / chunks;
    operand->first = schedule_.scratch_is_own ? schedule_.rank : range.first % chunks;
    if (range.first % chunks + range.count <= chunks) return std::nullopt;
    return "reads Scratch that does not hold one run of chunks";
  }

  std::optional<std::string> add(const Step& step) {
    const bool reaches_into_scratch = (reads_peer(step.kind) && step.src.space == Space::kScratch) ||
                                      (step.kind == StepKind::kPut && step.dst.space == Space::kScratch);
    if (reaches_into_scratch) return "peers reach into Scratch";
    Op op;
    op.kind = kind_of(step.kind);
    op.peer = step.peer;
    op.signal = step.signal;
    op.step = step_;
    op.format = step.format;
    op.lost_of = step.lost_of;
    program_.is_formatted |= step.format != RODA_WIRE_NONE;
    if (auto wrong = bind(step.src, &op.src)) return wrong;
    if (auto wrong = bind(step.other, &op.other)) return wrong;
    if (auto wrong = bind(step.dst, &op.dst)) return wrong;
    if (op.kind == OpKind::kCombine) {
      combine(step, op);
    } else if (is_signal(step.kind)) {
      count(op);
    } else {
      out_.sends += op.kind == OpKind::kSend ? 1 : 0;
      out_.ops.push_back(op);
    }
    return std::nullopt;
  }

  void combine(const Step& step, Op op) {
    const bool starts = step.kind == StepKind::kCopy || step.kind == StepKind::kGet;
    const Source source{reads_peer(step.kind) ? step.peer : -1, op.src};
    if (op.dst.count == 0) return;
    if (!starts && extends(op.dst, source)) {
      ++out_.ops.back().sources;
    } else {
      op.source = static_cast<std::uint32_t>(program_.sources.size());
      op.sources = starts ? 1 : 2;
      if (!starts) program_.sources.push_back({-1, op.dst});
      out_.ops.push_back(op);
    }
    program_.sources.push_back(source);
    program_.most_sources = std::max(program_.most_sources, out_.ops.back().sources);
  }

  // True when dst (op)= source can join the op before it and be done tile by tile with it.
  bool extends(const Operand& dst, const Source& source) const {
    if (out_.ops.empty() || out_.ops.back().kind != OpKind::kCombine) return false;
    return out_.ops.back().dst == dst && (source.peer >= 0 || !overlap(source.operand, dst));
  }

  // Signals to and waits for all peers become one op when they count alike for every peer.
  void count(Op op) {
    counts_.resize(2 * at(schedule_.size) * static_cast<std::size_t>(kMaxSignals));
    const auto next = [&](int peer) {
      const std::size_t direction = op.kind == OpKind::kSignal ? 1 : 0;
      return ++counts_[(direction * at(schedule_.size) + at(peer)) * static_cast<std::size_t>(kMaxSignals) +
                       at(op.signal)];
    };
    if (op.peer != kAllPeers) {
      op.value = next(op.peer);
      out_.ops.push_back(op);
      return;
    }
    std::vector<Op> each;
    for (int peer = 0; peer < schedule_.size; ++peer) {
      if (peer == schedule_.rank) continue;
      op.peer = peer;
      op.value = next(peer);
      each.push_back(op);
    }
    const bool alike = std::ranges::all_of(each, [&](const Op& o) { return o.value == each[0].value; });
    if (alike && !each.empty()) {
      each.resize(1);
      each[0].peer = kAllPeers;
    }
    out_.ops.insert(out_.ops.end(), each.begin(), each.end());
  }

  const Schedule& schedule_;
  std::size_t lane_;
  Program& program_;
  LaneProgram out_;
  std::uint32_t step_ = 0;
  std::vector<std::uint32_t> counts_;  // [waits, signals][peer][signal], once there is one
};

void note_readers(const Touches& touches, const std::vector<Schedule>& ranks, Program* program) {
  for (int s = 0; s < 2; ++s) {
    program->window[s] = std::ranges::any_of(touches.last[s], [](std::uint64_t time) { return time > 0; });
    program->readers[s] = touches.readers[s];
  }
  if (!ranks[at(program->rank)].reads_linger) return;
  for (std::int32_t p = 0; p < program->size; ++p) {
    if (touches.read_by[at(p)]) program->late_readers.push_back(p);
    if (touches.reads_from[at(p)]) program->tell_readers.push_back(p);
  }
}

// Whether every rank sums its own chunk up in one pass, and copies all that others have summed.
bool sums_own_chunks(const std::vector<Program>& ranks) {
  if (ranks.front().collective != Collective::kAllreduce || ranks.size() < 2) return false;
  return std::ranges::all_of(ranks, [&](const Program& program) {
    if (program.lanes.size() != 1 || at(program.chunks) != ranks.size()) return false;
    int sums = 0;
    const bool is_so = std::ranges::all_of(program.lanes.front().ops, [&](const Op& op) {
      if (op.kind != OpKind::kCombine) return op.kind == OpKind::kSignal || op.kind == OpKind::kWait;
      const auto sources = program.sources_of(op);
      if (sources.size() == 1) return sources.front().peer >= 0;
      ++sums;
      return op.dst.first == program.rank && op.dst.count == 1 && sources.size() == ranks.size() &&
             std::ranges::all_of(sources.subspan(1), [](const Source& source) { return source.peer >= 0; });
    });
    return is_so && sums == 1;
  });
}

// Before it is known what peers touch.
std::optional<std::string> bind(const Schedule& schedule, std::uint32_t needs, Program* program) {
  Program& out = *program;
  static_cast<Outline&>(out) = schedule;
  const bool is_part = entry_of(schedule.collective).output == RODA_OWN_PART;
  const std::int32_t held = schedule.scratch_is_own ? 1 : schedule.chunks;
  out.scratch_copies = (schedule.scratch_chunks + held - 1) / held;
  out.scratch_of = is_part ? Space::kInput : Space::kOutput;
  out.needs = needs;
  for (std::size_t lane = 0; lane < schedule.lanes.size(); ++lane) {
    if (auto wrong = LaneCompiler(schedule, lane, &out).run()) return wrong;
  }
  list_contribution(&out);
  return std::nullopt;
}

Compiled compile(const std::vector<Schedule>& schedules, std::uint32_t needs, std::optional<int> only) {
  Compiled made;
  made.ranks.resize(schedules.size());
  for (std::size_t r = 0; r < schedules.size() && !made.wrong; ++r) {
    made.wrong = bind(schedules[r], needs, &made.ranks[r]);
  }
  if (made.wrong || !is_one_sided(needs)) return made;
  std::vector<Touches> touches;
  made.ends = find_touches(made.ranks, only, &touches);
  const bool sums = sums_own_chunks(made.ranks);
  for (std::size_t r = 0; r < schedules.size(); ++r) {
    if (only && at(*only) != r) continue;
    made.ranks[r].sums_own_chunks = sums;
    note_readers(touches[r], schedules, &made.ranks[r]);
    place(touches[r], &made.ranks[r]);
  }
  return made;
}

}  // namespace

Compiled compile(const std::vector<Schedule>& ranks, std::uint32_t needs) {
  return compile(ranks, needs, std::nullopt);
}

std::optional<std::string> compile(const Algorithm& algorithm, int rank, int size, int root, Program* program) {
  if (!algorithm.accepts(size)) {
    return std::string(algorithm.name) + " does not run on " + std::to_string(size) + " ranks";
  }
  if (!is_one_sided(algorithm.needs)) return bind(algorithm.make(rank, size, root), algorithm.needs, program);
  std::vector<Schedule> schedules;
  for (int r = 0; r < size; ++r) schedules.push_back(algorithm.make(r, size, root));
  Compiled made = compile(schedules, algorithm.needs, rank);
  if (made.wrong) return made.wrong;
  if (!made.ends) return schedules[at(rank)].algorithm + ": the schedule never ends";
  *program = std::move(made.ranks[at(rank)]);
  return std::nullopt;
}

Program native_program(Collective collective, int rank, int size, int root) {
  const std::int32_t chunks = is_cut(collective) ? 1 : size;
  Program made{{std::string("native ") + entry_of(collective).name, collective, rank, size, root, chunks}};
  made.is_native = true;
  return made;
}

Program around(std::shared_ptr<const Program> program) {
  const roda_collective_entry& data = entry_of(program->collective);
  Program made{{program->algorithm, program->collective, program->rank, program->size, program->root, program->chunks}};
  made.in_place = false;
  made.stages = 1;
  std::vector<std::int32_t> numbers(at(program->size));
  std::iota(numbers.begin(), numbers.end(), 0);
  Call call{std::move(program), 0, std::make_shared<const std::vector<std::int32_t>>(numbers), {}, {}, 1};
  for (std::int32_t& number : numbers) ++number;
  if (data.input == RODA_ALL_PARTS) call.src_ends = numbers;
  if (data.output == RODA_ALL_PARTS) call.dst_ends = numbers;
  made.calls.push_back(std::move(call));
  const bool has_input = !is(made.collective, RODA_ROOTED) || is_for_root(made.collective) || made.rank == made.root;
  Op op{.kind = OpKind::kCall};
  op.dst = {Space::kOutput, Space::kOutput, 0, chunk_count(made, Space::kOutput)};
  op.src = has_input ? Operand{Space::kInput, Space::kInput, 0, chunk_count(made, Space::kInput)} : op.dst;
  made.lanes.push_back({{op}});
  return made;
}

StepKind step_of(const Program& program, const Op& op, std::size_t source) {
  if (op.kind != OpKind::kCombine) return kStepKinds[static_cast<std::size_t>(op.kind)];
  const bool is_local = program.sources_of(op)[source].peer < 0;
  if (source == 0) return is_local ? StepKind::kCopy : StepKind::kGet;
  return is_local ? StepKind::kReduce : StepKind::kGetReduce;
}

namespace {

std::string call_text(const Call& call) {
  const Program& part = *call.program;
  std::string text = std::string(collective_name(part.collective)) + "/" + (part.is_native ? kNative : part.algorithm) +
                     " among ranks ";
  constexpr std::size_t kMost = 8;
  for (std::size_t i = 0; i < std::min(kMost, call.members->size()); ++i) {
    text += (i == 0 ? "" : ", ") + std::to_string((*call.members)[i]);
  }
  return text + (call.members->size() > kMost ? ", ..." : "");
}

}  // namespace

std::string to_text(const Op& op, const Program& program) {
  const auto range = [&](const Operand& operand) {
    if (operand.space != Space::kScratch || program.is_composed()) {
      return Range{operand.space, operand.first, operand.count};
    }
    const std::int32_t first = program.scratch_is_own ? operand.copy : operand.copy * program.chunks + operand.first;
    return Range{operand.space, first, operand.count};
  };
  if (op.kind == OpKind::kCall) {
    return "call " + to_text(range(op.dst)) + " = " + to_text(range(op.src)) + " by " +
           call_text(program.calls[op.source]);
  }
  Step step{step_of(program, op), op.peer,   range(op.src), range(op.dst), op.signal,
            range(op.other),      op.format, op.lost_of};
  if (op.kind != OpKind::kCombine) return to_text(step);
  const auto sources = program.sources_of(op);
  const std::size_t first = sources.size() == 1 ? 0 : 1;
  step.kind = step_of(program, op, first);
  step.peer = sources[first].peer;
  step.src = range(sources[first].operand);
  std::string text = to_text(step);
  for (std::size_t s = 2; s < sources.size(); ++s) {
    text += " + " + to_text(range(sources[s].operand)) + " of " + std::to_string(sources[s].peer);
  }
  return text;
}

std::string to_text(const Program& program) {
  std::string text = std::string(collective_name(program.collective)) + "/" + program.algorithm + " rank " +
                     std::to_string(program.rank) + " of " + std::to_string(program.size) + ", " +
                     std::to_string(program.chunks) + " chunks\n";
  for (std::size_t lane = 0; lane < program.lanes.size(); ++lane) {
    for (const Op& op : program.lanes[lane].ops) {
      text +=
          "  lane " + std::to_string(lane) + " step " + std::to_string(op.step) + ": " + to_text(op, program) + "\n";
    }
  }
  return text;
}

}  // namespace roda::schedule

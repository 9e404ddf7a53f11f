#include "algorithms/schedule/sim/program.h"

#include <algorithm>

#include "algorithms/schedule/verify/layout.h"

namespace roda::sim {

using schedule::Range;
using schedule::Schedule;
using schedule::Space;
using schedule::Step;
using schedule::StepKind;

namespace {

// A send this many steps back is taken to have left.
constexpr std::size_t kSendsRemembered = 8;
constexpr std::size_t kLongestPeriod = 8;
constexpr std::int64_t kFewestRepeats = 4;

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
    switch (step.kind) {
      case StepKind::kSend:
        return {OpKind::kSend, Work::kNone, 0, 0, 0, fraction(step.src)};
      case StepKind::kRecv:
        return {OpKind::kRecv, Work::kNone, 0, 0, 0, fraction(step.dst)};
      case StepKind::kRecvReduce:
        return {OpKind::kRecv, Work::kReduce, 0, 0, 0, fraction(step.dst)};
      case StepKind::kCopy:
        return {OpKind::kWork, Work::kCopy, 0, 0, 0, fraction(step.dst)};
      case StepKind::kDots:
        return {OpKind::kWork, Work::kReduce, 0, 0, 0, fraction(step.src)};
      case StepKind::kReduce:
      case StepKind::kWeigh:
        return {OpKind::kWork, Work::kReduce, 0, 0, 0, fraction(step.dst)};
      case StepKind::kGet:
        return {OpKind::kGet, Work::kNone, 0, 0, 0, fraction(step.dst)};
      case StepKind::kGetReduce:
        return {OpKind::kGet, Work::kReduce, 0, 0, 0, fraction(step.dst)};
      case StepKind::kPut:
        return {OpKind::kPut, Work::kNone, 0, 0, 0, fraction(step.src)};
      case StepKind::kSignal:
        return {OpKind::kSignal, Work::kNone, static_cast<std::int8_t>(step.signal), 0, 0, 0};
      case StepKind::kWait:
        return {OpKind::kWait, Work::kNone, static_cast<std::int8_t>(step.signal), 0, 0, 0};
      case StepKind::kCall:  // the calls are simulated one by one, see rank_programs.h
        break;
    }
    return {};
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
    if (!schedule::verifier::writes_locally(steps[index].kind)) return 0;
    std::int8_t sends = 0;
    for (std::size_t back = 1; back <= std::min(index, kSendsRemembered); ++back) {
      const Step& earlier = steps[index - back];
      if (earlier.kind != StepKind::kSend || (earlier.src.count > 0 && fraction(earlier.src) == 0)) continue;
      ++sends;
      if (schedule::verifier::overlap(earlier.src, steps[index].dst)) return sends;
    }
    return 0;
  }

  // A signal to all peers, or a wait for all, is one after the other, beginning with the right neighbour.
  void append(const Step& step, Op op, std::vector<Op>* ops) const {
    const bool local = op.kind == OpKind::kWork;
    const bool all = !local && step.peer == schedule::kAllPeers;
    const std::int32_t count = all ? schedule_.size - 1 : 1;
    for (std::int32_t i = 0; i < count; ++i) {
      const std::int32_t peer = all ? (schedule_.rank + 1 + i) % schedule_.size : step.peer;
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

}  // namespace

Program program_of(const Schedule& schedule, std::int32_t shares, bool relative) {
  Program program;
  program.relative = relative;
  Translator translator(schedule, shares, relative);
  for (const schedule::Lane& lane : schedule.lanes) program.lanes.push_back(compress(translator.lane(lane.steps)));
  return program;
}

std::int64_t steps_of(const Program& program) {
  std::int64_t steps = 0;
  for (const LaneProgram& lane : program.lanes) {
    for (const Block& block : lane) steps += static_cast<std::int64_t>(block.ops.size()) * block.repeat;
  }
  return steps;
}

}  // namespace roda::sim

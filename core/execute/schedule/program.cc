#include "core/execute/schedule/program.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <utility>

#include "core/execute/schedule/compiler.h"

namespace roda::execute {

using schedule::Collective;
using schedule::Range;
using schedule::Schedule;
using schedule::Space;
using schedule::Step;
using schedule::StepKind;

std::int32_t chunks_of(Collective collective, Space space, std::int32_t chunks, std::int32_t size) {
  const roda_collective_entry& data = schedule::entry_of(collective);
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

OpKind kind_of(StepKind kind) {
  constexpr std::pair<StepKind, OpKind> kKinds[] = {{StepKind::kSend, OpKind::kSend},
                                                    {StepKind::kRecv, OpKind::kRecv},
                                                    {StepKind::kRecvReduce, OpKind::kRecvReduce},
                                                    {StepKind::kPut, OpKind::kPut},
                                                    {StepKind::kDots, OpKind::kDots},
                                                    {StepKind::kWeigh, OpKind::kWeigh},
                                                    {StepKind::kWait, OpKind::kWait},
                                                    {StepKind::kSignal, OpKind::kSignal}};
  const auto* found = std::ranges::find_if(kKinds, [&](const auto& k) { return k.first == kind; });
  return found == std::end(kKinds) ? OpKind::kCombine : found->second;
}

// One lane of the schedule into ops.
class LaneCompiler {
 public:
  LaneCompiler(const Schedule& schedule, std::size_t lane, Program* program)
      : schedule_(schedule), lane_(lane), program_(*program) {}

  Status run() {
    const auto& steps = schedule_.lanes[lane_].steps;
    for (std::size_t i = 0; i < steps.size(); ++i) {
      step_ = static_cast<std::uint32_t>(i);
      RODA_RETURN_IF_ERROR(add(steps[i]));
    }
    program_.lanes.push_back(std::move(out_));
    return {};
  }

 private:
  // Scratch chunk i is as long as chunk i % chunks of the data, or as the one of this rank's number.
  Status bind(const Range& range, Operand* operand) const {
    *operand = {range.space, range.space, range.first, range.count};
    if (range.space != Space::kScratch || range.count == 0) return {};
    operand->data = program_.scratch_of;
    const std::int32_t chunks = schedule_.scratch_is_own ? 1 : schedule_.chunks;
    operand->copy = range.first / chunks;
    operand->first = schedule_.scratch_is_own ? schedule_.rank : range.first % chunks;
    if (range.first % chunks + range.count <= chunks) return {};
    return Status::unsupported(schedule_.algorithm + ": reads Scratch that does not hold one run of chunks");
  }

  Status add(const Step& step) {
    if (step.kind == StepKind::kCall) return Status::unsupported("a composed schedule runs as a composed stage");
    Op op;
    op.kind = kind_of(step.kind);
    op.peer = step.peer;
    op.signal = step.signal;
    op.step = step_;
    RODA_RETURN_IF_ERROR(bind(step.src, &op.src));
    RODA_RETURN_IF_ERROR(bind(step.other, &op.other));
    RODA_RETURN_IF_ERROR(bind(step.dst, &op.dst));
    if (op.kind == OpKind::kCombine) {
      combine(step, op);
    } else if (schedule::is_signal(step.kind)) {
      count(op);
    } else {
      out_.sends += op.kind == OpKind::kSend ? 1 : 0;
      out_.ops.push_back(op);
    }
    return {};
  }

  void combine(const Step& step, Op op) {
    const bool starts = step.kind == StepKind::kCopy || step.kind == StepKind::kGet;
    const Source source{schedule::reads_peer(step.kind) ? step.peer : -1, op.src};
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
    const auto next = [&](int peer) {
      return ++counts_[{op.kind == OpKind::kSignal, peer * schedule::kMaxSignals + op.signal}];
    };
    if (op.peer != schedule::kAllPeers) {
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
      each[0].peer = schedule::kAllPeers;
    }
    out_.ops.insert(out_.ops.end(), each.begin(), each.end());
  }

  const Schedule& schedule_;
  std::size_t lane_;
  Program& program_;
  LaneProgram out_;
  std::uint32_t step_ = 0;
  std::map<std::pair<bool, int>, std::uint32_t> counts_;
};

void note_readers(const ReplayResult& facts, Program* program) {
  for (int s = 0; s < 2; ++s) {
    const auto& times = facts.last_peer_access[s];
    program->window[s] = std::ranges::any_of(times, [](std::uint64_t time) { return time > 0; });
    program->readers[s] = facts.readers[s];
  }
  for (std::int32_t p = 0; p < program->size; ++p) {
    if (facts.read_by[index(p)] && facts.reads_linger[index(program->rank)]) program->late_readers.push_back(p);
    if (facts.reads_from[index(p)] && facts.reads_linger[index(p)]) program->tell_readers.push_back(p);
  }
}

bool sums_own_chunks(const schedule::Algorithm& algorithm, int size, int root) {
  if (algorithm.collective != Collective::kAllreduce || size < 2) return false;
  for (std::int32_t rank = 0; rank < size; ++rank) {
    const Schedule schedule = algorithm.make(rank, size, root);
    const std::vector<Step>& steps = schedule.lanes.front().steps;
    const auto sums = [&](const Step& s) {
      return s.kind == StepKind::kGetReduce && s.dst == Range{s.dst.space, rank, 1};
    };
    const auto copies = [](const Step& s) { return s.kind == StepKind::kGet || schedule::is_signal(s.kind); };
    const auto first = std::ranges::find_if(steps, sums);
    const auto last = std::find_if_not(first, steps.end(), sums);
    const bool is_so = schedule.lanes.size() == 1 && schedule.chunks == size && last - first == size - 1 &&
                       std::all_of(steps.begin(), first, copies) && std::all_of(last, steps.end(), copies);
    if (!is_so) return false;
  }
  return true;
}

}  // namespace

Status compile(const schedule::Algorithm& algorithm, int rank, int size, int root, Program* program) {
  const Schedule schedule = algorithm.make(rank, size, root);
  Program out;
  out.algorithm = schedule.algorithm;
  out.collective = schedule.collective;
  out.rank = rank;
  out.size = size;
  out.root = root;
  out.chunks = schedule.chunks;
  const bool is_part = schedule::entry_of(schedule.collective).output == RODA_OWN_PART;
  const std::int32_t held = schedule.scratch_is_own ? 1 : schedule.chunks;
  out.scratch_copies = (schedule.scratch_chunks + held - 1) / held;
  out.scratch_of = is_part ? Space::kInput : Space::kOutput;
  out.scratch_is_own = schedule.scratch_is_own;
  out.product_chunks = schedule.product_chunks;
  out.in_place = schedule.in_place;
  out.needs = algorithm.needs;
  out.sums_own_chunks = sums_own_chunks(algorithm, size, root);

  for (std::size_t lane = 0; lane < schedule.lanes.size(); ++lane) {
    RODA_RETURN_IF_ERROR(LaneCompiler(schedule, lane, &out).run());
  }
  list_contribution(&out);
  if (out.one_sided()) {
    ReplayResult facts;
    RODA_RETURN_IF_ERROR(replay(algorithm, rank, size, root, &facts));
    note_readers(facts, &out);
    place(facts, &out);
  }
  *program = std::move(out);
  return {};
}

}  // namespace roda::execute

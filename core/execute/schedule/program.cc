#include "core/execute/schedule/program.h"

#include <algorithm>
#include <map>
#include <optional>
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

bool same_place(const Operand& a, const Operand& b) {
  return a.space == b.space && a.extent == b.extent && a.first == b.first && a.count == b.count && a.unit == b.unit &&
         a.unit_first == b.unit_first;
}

// One lane of the schedule into ops.
class LaneCompiler {
 public:
  LaneCompiler(const Schedule& schedule, const ReplayResult& facts, std::size_t lane, ScratchLabels* labels,
               Program* program)
      : schedule_(schedule), facts_(facts), lane_(lane), labels_(*labels), program_(*program) {}

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
  Status read(const Range& range, Operand* operand) const {
    const auto found = labels_.read(range);
    if (!found) return Status::unsupported(schedule_.algorithm + kScatteredScratch);
    *operand = *found;
    return {};
  }

  Status add(const Step& step) {
    Op op;
    op.peer = step.peer;
    op.signal = step.signal;
    op.step = step_;
    switch (step.kind) {
      case StepKind::kSend:
        op.kind = OpKind::kSend;
        RODA_RETURN_IF_ERROR(read(step.src, &op.src));
        ++out_.sends;
        break;
      case StepKind::kRecv:
        op.kind = OpKind::kRecv;
        op.dst = labels_.write(step.dst, received());
        break;
      case StepKind::kRecvReduce:
        op.kind = OpKind::kRecvReduce;
        RODA_RETURN_IF_ERROR(read(step.src, &op.src));
        op.dst = labels_.write(step.dst, op.src);
        break;
      case StepKind::kPut:
        op.kind = OpKind::kPut;
        RODA_RETURN_IF_ERROR(read(step.src, &op.src));
        op.dst = ScratchLabels(0).write(step.dst, op.src);
        break;
      case StepKind::kCopy:
      case StepKind::kReduce:
      case StepKind::kGet:
      case StepKind::kGetReduce:
        op.kind = OpKind::kCombine;
        return combine(step, op);
      case StepKind::kDots:
      case StepKind::kWeigh:
        op.kind = step.kind == StepKind::kDots ? OpKind::kDots : OpKind::kWeigh;
        RODA_RETURN_IF_ERROR(read(step.src, &op.src));
        RODA_RETURN_IF_ERROR(read(step.other, &op.other));
        op.dst = labels_.write(step.dst, op.src);
        break;
      case StepKind::kSignal:
      case StepKind::kWait:
        op.kind = step.kind == StepKind::kSignal ? OpKind::kSignal : OpKind::kWait;
        count(op);
        return {};
      case StepKind::kCall:
        return Status::unsupported("a composed schedule runs as a ComposedStage");
    }
    out_.ops.push_back(op);
    return {};
  }

  // Length of what a kRecv into Scratch receives.
  Operand received() const { return lane_ < facts_.steps.size() ? facts_.steps[lane_][step_].received : Operand(); }

  Status combine(const Step& step, Op op) {
    const bool remote = step.kind == StepKind::kGet || step.kind == StepKind::kGetReduce;
    const bool starts = step.kind == StepKind::kCopy || step.kind == StepKind::kGet;
    Source source;
    if (remote) {
      source = {step.peer, *ScratchLabels(0).read(step.src)};
    } else {
      RODA_RETURN_IF_ERROR(read(step.src, &source.operand));
    }
    if (starts) {
      op.dst = labels_.write(step.dst, remote ? fetched(step, source.operand) : source.operand);
    } else {
      RODA_RETURN_IF_ERROR(read(step.dst, &op.dst));
    }
    if (op.dst.count == 0) return {};
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
    return {};
  }

  // A peer's chunk, as this rank knows its length: in an alltoall as long as what it receives from that peer, and a
  // part of its own result as long as the peer's part of the input.
  Operand fetched(const Step& step, Operand chunk) const {
    const bool from_input = schedule::is_between_pairs(schedule_.collective) && chunk.extent == Space::kInput;
    const bool is_part = schedule::entry_of(schedule_.collective).output == RODA_OWN_PART;
    if (!from_input && !(is_part && chunk.extent == Space::kOutput)) return chunk;
    chunk.extent = from_input ? Space::kOutput : Space::kInput;
    chunk.first = step.peer;
    return chunk;
  }

  // True when dst (op)= source can join the op before it and be done tile by tile with it.
  bool extends(const Operand& dst, const Source& source) const {
    if (out_.ops.empty() || out_.ops.back().kind != OpKind::kCombine) return false;
    return same_place(out_.ops.back().dst, dst) && (source.peer >= 0 || !overlap(source.operand, dst));
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
    const bool alike = std::all_of(each.begin(), each.end(), [&](const Op& o) { return o.value == each[0].value; });
    if (alike && !each.empty()) {
      each.resize(1);
      each[0].peer = schedule::kAllPeers;
    }
    out_.ops.insert(out_.ops.end(), each.begin(), each.end());
  }

  const Schedule& schedule_;
  const ReplayResult& facts_;
  std::size_t lane_;
  ScratchLabels& labels_;
  Program& program_;
  LaneProgram out_;
  std::uint32_t step_ = 0;
  std::map<std::pair<bool, int>, std::uint32_t> counts_;
};

bool needs_replay(const Schedule& schedule) {
  for (const auto& lane : schedule.lanes) {
    for (const Step& step : lane.steps) {
      const bool into_scratch = step.kind == StepKind::kRecv && step.dst.space == Space::kScratch && step.dst.count > 0;
      if (into_scratch || one_sided(needs_of(step.kind))) return true;
    }
  }
  return false;
}

void note_readers(const ReplayResult& facts, Program* program) {
  for (int s = 0; s < 2; ++s) {
    const auto& times = facts.last_peer_access[s];
    program->window[s] = std::any_of(times.begin(), times.end(), [](std::uint64_t time) { return time > 0; });
  }
  for (std::int32_t p = 0; p < program->size; ++p) {
    if (facts.read_by[index(p)] && facts.reads_linger[index(program->rank)]) program->late_readers.push_back(p);
    if (facts.reads_from[index(p)] && facts.reads_linger[index(p)]) program->tell_readers.push_back(p);
  }
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
  out.scratch_chunks = schedule.scratch_chunks;
  out.product_chunks = schedule.product_chunks;
  out.in_place = schedule.in_place;
  out.needs = algorithm.needs;

  ReplayResult facts;
  const bool replayed = out.one_sided() || needs_replay(schedule);
  if (replayed) RODA_RETURN_IF_ERROR(replay(algorithm, rank, size, root, &facts));
  ScratchLabels labels(schedule.scratch_chunks);
  for (std::size_t lane = 0; lane < schedule.lanes.size(); ++lane) {
    RODA_RETURN_IF_ERROR(LaneCompiler(schedule, facts, lane, &labels, &out).run());
  }
  list_contribution(&out);
  if (out.one_sided()) {
    note_readers(facts, &out);
    place(facts, &out);
  }
  *program = std::move(out);
  return {};
}

}  // namespace roda::execute

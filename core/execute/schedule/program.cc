#include "core/execute/schedule/program.h"

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include "core/execute/schedule/placement.h"
#include "core/execute/schedule/replay.h"
#include "core/execute/schedule/scratch_labels.h"

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

std::size_t index(std::int32_t i) { return static_cast<std::size_t>(i); }

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
  Op op(OpKind kind, const Step& step) const {
    Op op;
    op.kind = kind;
    op.peer = step.peer;
    op.signal = step.signal;
    op.step = step_;
    return op;
  }

  Status read(const Range& range, Operand* operand) const {
    const auto found = labels_.read(range);
    if (!found)
      return Status::unsupported(schedule_.algorithm + ": reads Scratch that does not hold one run of chunks");
    *operand = *found;
    return {};
  }

  Status add(const Step& step) {
    switch (step.kind) {
      case StepKind::kSend: {
        Op send = op(OpKind::kSend, step);
        RODA_RETURN_IF_ERROR(read(step.src, &send.src));
        ++out_.sends;
        out_.ops.push_back(send);
        return {};
      }
      case StepKind::kRecv: {
        Op recv = op(OpKind::kRecv, step);
        recv.dst = labels_.write(step.dst, received());
        out_.ops.push_back(recv);
        return {};
      }
      case StepKind::kRecvReduce: {
        Op recv = op(OpKind::kRecvReduce, step);
        RODA_RETURN_IF_ERROR(read(step.src, &recv.src));
        recv.dst = labels_.write(step.dst, recv.src);
        out_.bounces = true;
        out_.ops.push_back(recv);
        return {};
      }
      case StepKind::kPut: {
        Op put = op(OpKind::kPut, step);
        RODA_RETURN_IF_ERROR(read(step.src, &put.src));
        put.dst = ScratchLabels(0).write(step.dst, put.src);
        out_.ops.push_back(put);
        return {};
      }
      case StepKind::kCopy:
      case StepKind::kReduce:
      case StepKind::kGet:
      case StepKind::kGetReduce:
        return combine(step);
      case StepKind::kDots:
      case StepKind::kWeigh: {
        Op adasum = op(step.kind == StepKind::kDots ? OpKind::kDots : OpKind::kWeigh, step);
        RODA_RETURN_IF_ERROR(read(step.src, &adasum.src));
        RODA_RETURN_IF_ERROR(read(step.other, &adasum.other));
        adasum.dst = labels_.write(step.dst, adasum.src);
        out_.ops.push_back(adasum);
        return {};
      }
      case StepKind::kSignal:
      case StepKind::kWait:
        count(step);
        return {};
      case StepKind::kCall:
        return Status::unsupported("a composed schedule runs as a ComposedStage");
    }
    return {};
  }

  // Length of what a kRecv into Scratch receives.
  Operand received() const { return lane_ < facts_.steps.size() ? facts_.steps[lane_][step_].received : Operand(); }

  Status combine(const Step& step) {
    const bool remote = step.kind == StepKind::kGet || step.kind == StepKind::kGetReduce;
    const bool starts = step.kind == StepKind::kCopy || step.kind == StepKind::kGet;
    Source source;
    source.peer = remote ? step.peer : -1;
    if (remote) {
      source.operand = *ScratchLabels(0).read(step.src);
    } else {
      RODA_RETURN_IF_ERROR(read(step.src, &source.operand));
    }
    Operand dst;
    if (starts) {
      Operand like = source.operand;
      // A chunk that this rank gets in an alltoall is as long as what it receives from that peer.
      if (remote && schedule::is_between_pairs(schedule_.collective) && like.extent == Space::kInput) {
        like.extent = Space::kOutput;
        like.first = step.peer;
      }
      if (remote && schedule::entry_of(schedule_.collective).output == RODA_OWN_PART && like.extent == Space::kOutput) {
        like.extent = Space::kInput;
        like.first = step.peer;
      }
      dst = labels_.write(step.dst, like);
    } else {
      RODA_RETURN_IF_ERROR(read(step.dst, &dst));
    }
    if (dst.count == 0) return {};
    if (remote) out_.bounces = true;
    if (!starts && extends(dst, source)) {
      program_.sources.push_back(source);
      ++out_.ops.back().sources;
    } else {
      Op combine = op(OpKind::kCombine, step);
      combine.dst = dst;
      combine.source = static_cast<std::uint32_t>(program_.sources.size());
      if (!starts) program_.sources.push_back({-1, dst});
      program_.sources.push_back(source);
      combine.sources = starts ? 1 : 2;
      out_.ops.push_back(combine);
    }
    program_.most_sources = std::max(program_.most_sources, out_.ops.back().sources);
    return {};
  }

  // True when dst (op)= source can join the op before it and be done tile by tile with it.
  bool extends(const Operand& dst, const Source& source) const {
    if (out_.ops.empty() || out_.ops.back().kind != OpKind::kCombine) return false;
    return same_place(out_.ops.back().dst, dst) && (source.peer >= 0 || !overlap(source.operand, dst));
  }

  // Signals to and waits for all peers become one op when they count alike for every peer.
  void count(const Step& step) {
    Op entry = op(step.kind == StepKind::kSignal ? OpKind::kSignal : OpKind::kWait, step);
    const auto next = [&](int peer) {
      return ++counts_[{step.kind == StepKind::kSignal, peer * schedule::kMaxSignals + step.signal}];
    };
    if (step.peer != schedule::kAllPeers) {
      entry.value = next(step.peer);
      out_.ops.push_back(entry);
      return;
    }
    std::vector<Op> each;
    for (int peer = 0; peer < schedule_.size; ++peer) {
      if (peer == schedule_.rank) continue;
      entry.peer = peer;
      entry.value = next(peer);
      each.push_back(entry);
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

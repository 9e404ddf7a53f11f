#include "core/execute/program.h"

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include "core/execute/replay.h"
#include "core/execute/scratch_labels.h"

namespace roda::execute {

using schedule::Collective;
using schedule::Range;
using schedule::Schedule;
using schedule::Space;
using schedule::Step;
using schedule::StepKind;

std::int32_t chunks_of(Collective collective, Space space, std::int32_t chunks, std::int32_t size) {
  switch (collective) {
    case Collective::kAllreduce:
    case Collective::kBroadcast:
      return chunks;
    case Collective::kAllgather:
      return space == Space::kOutput ? size : 0;
    case Collective::kReduceScatter:
      return space == Space::kInput ? size : 1;
    case Collective::kAlltoall:
      return size;
    case Collective::kBarrier:
      break;
  }
  return 0;
}

namespace {

std::size_t index(std::int32_t i) { return static_cast<std::size_t>(i); }

bool overlap(const Operand& a, const Operand& b) {
  if (a.count == 0 || b.count == 0 || a.space != b.space) return false;
  // Scratch: two units may share bytes whatever their chunks say; be careful.
  if (a.space == Space::kScratch) return true;
  return a.first < b.first + b.count && b.first < a.first + a.count;
}

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
      case StepKind::kSignal:
      case StepKind::kWait:
        count(step);
        return {};
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
      if (remote && schedule_.collective == Collective::kAlltoall && like.extent == Space::kInput) {
        like.extent = Space::kOutput;
        like.first = step.peer;
      }
      if (remote && schedule_.collective == Collective::kReduceScatter && like.extent == Space::kOutput) {
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
      const bool one_sided = step.kind != StepKind::kSend && step.kind != StepKind::kRecv &&
                             step.kind != StepKind::kRecvReduce && step.kind != StepKind::kCopy &&
                             step.kind != StepKind::kReduce;
      if (into_scratch || one_sided) return true;
    }
  }
  return false;
}

std::vector<bool> contributes(const Program& program) {
  const auto chunks = chunks_of(program.collective, Space::kOutput, program.chunks, program.size);
  std::vector<bool> holds(index(chunks));
  for (std::int32_t c = 0; c < chunks; ++c) {
    switch (program.collective) {
      case Collective::kAllreduce:
        holds[index(c)] = program.in_place;
        break;
      case Collective::kBroadcast:
        holds[index(c)] = program.rank == program.root;
        break;
      case Collective::kAllgather:
        holds[index(c)] = c == program.rank;
        break;
      default:
        break;
    }
  }
  return holds;
}

void append(std::vector<ChunkRun>* runs, Space space, std::int32_t chunk) {
  if (!runs->empty() && runs->back().space == space && runs->back().first + runs->back().count == chunk) {
    ++runs->back().count;
  } else {
    runs->push_back({space, chunk, 1});
  }
}

// Decides, for staging, what lies in the block and what stays in the user's memory.
class Placement {
 public:
  Placement(const ReplayResult& facts, Program* program) : facts_(facts), program_(*program) {}

  void run() {
    for (int s = 0; s < 2; ++s) {
      for (const auto time : facts_.last_peer_access[s]) shared_[s].push_back(time > 0);
    }
    if (program_.collective == Collective::kAllreduce && !program_.in_place) share_overwritten_input();
    while (spread()) {
    }
    for (const auto& map : shared_) {
      program_.uses_block |= std::find(map.begin(), map.end(), true) != map.end();
    }
    mark();
    list_copies();
  }

 private:
  struct Use {
    std::uint64_t time;
    bool writes;
    Operand* operand;
  };

  std::vector<bool>& shared(Space space) { return shared_[space == Space::kOutput]; }

  // The user's input may be the user's output: Input goes into the block where Output might be written before its last
  // read.
  void share_overwritten_input() {
    for_each_operand([&](const Use& read) {
      if (read.writes || read.operand->space != Space::kInput) return;
      for_each_operand([&](const Use& write) {
        const Operand& dst = *write.operand;
        if (!write.writes || dst.space != Space::kOutput || write.time > read.time) return;
        for (std::int32_t c = dst.first; c < dst.first + dst.count; ++c) {
          const bool into_block = facts_.last_peer_access[1][index(c)] > write.time;
          if (!into_block) shared_[0][index(c)] = true;
        }
      });
    });
  }

  // A range of several chunks must lie together: one shared chunk makes all of it shared.
  bool spread() {
    bool changed = false;
    for_each_operand([&](Use use) {
      Operand& operand = *use.operand;
      if (operand.space == Space::kScratch) return;
      auto& map = shared(operand.space);
      const auto begin = map.begin() + operand.first;
      const auto count = std::count(begin, begin + operand.count, true);
      if (count == 0 || count == operand.count) return;
      std::fill(begin, begin + operand.count, true);
      changed = true;
    });
    return changed;
  }

  template <typename F>
  void for_each_operand(F f) {
    for (std::size_t lane = 0; lane < program_.lanes.size(); ++lane) {
      for (Op& op : program_.lanes[lane].ops) {
        const std::uint64_t time = lane < facts_.steps.size() ? facts_.steps[lane][op.step].time : 0;
        if (op.kind == OpKind::kSend || op.kind == OpKind::kRecvReduce || op.kind == OpKind::kPut) {
          f(Use{time, false, &op.src});
        }
        if (op.kind == OpKind::kCombine) {
          for (std::uint32_t s = 0; s < op.sources; ++s) {
            Source& source = program_.sources[op.source + s];
            if (source.peer < 0) f(Use{time, false, &source.operand});
          }
        }
        if (op.kind == OpKind::kRecv || op.kind == OpKind::kRecvReduce || op.kind == OpKind::kCombine) {
          f(Use{time, true, &op.dst});
        }
      }
    }
  }

  // The last write of shared Output chunks that nobody looks at afterwards goes to the user's memory at once.
  bool is_final(const Use& write) {
    const Operand& dst = *write.operand;
    if (dst.space != Space::kOutput || !shared(Space::kOutput)[index(dst.first)]) return false;
    for (std::int32_t c = dst.first; c < dst.first + dst.count; ++c) {
      if (facts_.last_peer_access[1][index(c)] >= write.time) return false;
    }
    bool used_later = false;
    for_each_operand([&](const Use& use) {
      if (use.operand == write.operand || use.time < write.time) return;
      used_later |= (use.time > write.time || use.writes) && overlap(*use.operand, dst);
    });
    return !used_later;
  }

  void mark() {
    const auto output_chunks = shared_[1].size();
    written_.assign(output_chunks, false);
    final_.assign(output_chunks, false);
    for_each_operand([&](Use use) {
      Operand& operand = *use.operand;
      if (operand.space == Space::kScratch || operand.count == 0) return;
      operand.in_user = !shared(operand.space)[index(operand.first)];
      if (operand.space == Space::kOutput && use.writes) {
        std::fill(written_.begin() + operand.first, written_.begin() + operand.first + operand.count, true);
      }
    });
    std::vector<Operand*> finals;
    for_each_operand([&](Use use) {
      if (use.writes && use.operand->count > 0 && is_final(use)) finals.push_back(use.operand);
    });
    for (Operand* operand : finals) {
      operand->in_user = true;
      std::fill(final_.begin() + operand->first, final_.begin() + operand->first + operand->count, true);
    }
  }

  void list_copies() {
    const bool puts = (program_.needs & schedule::kNeedsPut) != 0;
    const std::vector<bool> holds = contributes(program_);
    for (std::int32_t c = 0; c < static_cast<std::int32_t>(shared_[0].size()); ++c) {
      if (shared_[0][index(c)]) append(&program_.copy_in, Space::kInput, c);
    }
    for (std::int32_t c = 0; c < static_cast<std::int32_t>(holds.size()); ++c) {
      const std::size_t i = index(c);
      const bool unchanged = holds[i] && !written_[i] && !(puts && shared_[1][i]);
      if (shared_[1][i] && holds[i]) append(&program_.copy_in, Space::kOutput, c);
      if (holds[i] && (!shared_[1][i] || unchanged)) append(&program_.carry, Space::kOutput, c);
      if (shared_[1][i] && !final_[i] && !unchanged) append(&program_.copy_out, Space::kOutput, c);
    }
    const auto more = static_cast<std::int32_t>(shared_[1].size());
    for (auto c = static_cast<std::int32_t>(holds.size()); c < more; ++c) {
      if (shared_[1][index(c)] && !final_[index(c)]) append(&program_.copy_out, Space::kOutput, c);
    }
  }

  const ReplayResult& facts_;
  Program& program_;
  std::vector<bool> shared_[2];
  std::vector<bool> written_;
  std::vector<bool> final_;
};

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
  out.in_place = schedule.in_place;
  out.needs = algorithm.needs;

  ReplayResult facts;
  const bool replayed = out.one_sided() || needs_replay(schedule);
  if (replayed) RODA_RETURN_IF_ERROR(replay(algorithm, rank, size, root, &facts));
  ScratchLabels labels(schedule.scratch_chunks);
  for (std::size_t lane = 0; lane < schedule.lanes.size(); ++lane) {
    RODA_RETURN_IF_ERROR(LaneCompiler(schedule, facts, lane, &labels, &out).run());
  }
  const std::vector<bool> holds = contributes(out);
  for (std::int32_t c = 0; c < static_cast<std::int32_t>(holds.size()); ++c) {
    if (holds[index(c)]) append(&out.contribution, Space::kOutput, c);
  }
  if (out.one_sided()) {
    note_readers(facts, &out);
    Placement(facts, &out).run();
  }
  *program = std::move(out);
  return {};
}

}  // namespace roda::execute

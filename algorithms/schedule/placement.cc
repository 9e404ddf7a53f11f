#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "algorithms/index.h"
#include "algorithms/schedule/compiler.h"

namespace roda::schedule {

namespace {

// Whether the rank's contribution fills Output.
bool contributes_all(const Program& program) {
  if (is_allreduction(program.collective)) return program.in_place;
  const bool has_root = entry_of(program.collective).input == RODA_WHOLE && !is_for_root(program.collective);
  return has_root && program.rank == program.root;
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
  Placement(const Touches& touches, Program* program) : touches_(touches), program_(*program) {}

  void run() {
    for (int s = 0; s < 2; ++s) {
      for (const auto time : touches_.last[s]) shared_[s].push_back(time > 0);
    }
    if (program_.collective == Collective::kAllreduce && !program_.in_place) share_overwritten_input();
    while (spread()) {
    }
    for (const auto& map : shared_) program_.uses_block |= std::ranges::find(map, true) != map.end();
    mark();
    list_copies();
  }

 private:
  struct Use {
    std::uint64_t time;
    bool writes;
    Operand* operand;
  };

  static void note(const Operand& operand, std::vector<bool>* chunks) {
    std::fill_n(chunks->begin() + operand.first, operand.count, true);
  }

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
          const bool into_block = touches_.last[1][at(c)] > write.time;
          if (!into_block) shared_[0][at(c)] = true;
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
      note(operand, &map);
      changed = true;
    });
    return changed;
  }

  void for_each_operand(auto f) {
    for (std::size_t lane = 0; lane < program_.lanes.size(); ++lane) {
      for (std::size_t i = 0; i < program_.lanes[lane].ops.size(); ++i) {
        Op& op = program_.lanes[lane].ops[i];
        const std::uint64_t time = touches_.times[lane][i];
        if (op.kind == OpKind::kSend || op.kind == OpKind::kRecvReduce || op.kind == OpKind::kPut) {
          f(Use{time, false, &op.src});
        }
        if (op.kind == OpKind::kCombine) {
          for (Source& source : program_.sources_of(op)) {
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
    if (dst.space != Space::kOutput || !shared(Space::kOutput)[at(dst.first)]) return false;
    for (std::int32_t c = dst.first; c < dst.first + dst.count; ++c) {
      if (touches_.last[1][at(c)] >= write.time) return false;
    }
    bool used_later = false;
    for_each_operand([&](const Use& use) {
      if (use.operand == write.operand || use.time < write.time) return;
      used_later |= (use.time > write.time || use.writes) && overlap(*use.operand, dst);
    });
    return !used_later;
  }

  // A reduction of shared Output chunks that no peer looks at before, and that nobody writes to but it: it can be made
  // in the user's memory, which then holds the result, and copied to the block. That saves bringing the chunks in and
  // out, and stores by a loop into lines that a peer has read, the slowest thing that two caches do
  // (docs/notes/shared-memory.md).
  bool can_publish(const Op& op, std::uint64_t time) {
    const Operand& dst = op.dst;
    if (op.kind != OpKind::kCombine || dst.space != Space::kOutput || dst.count == 0) return false;
    if ((program_.needs & kNeedsPut) != 0 || !shared(Space::kOutput)[at(dst.first)]) return false;
    for (std::int32_t c = dst.first; c < dst.first + dst.count; ++c) {
      if (touches_.first[1][at(c)] <= time) return false;
    }
    // Where sources must be fetched, one after another, only the first may be what is written over.
    for (const Source& source : program_.sources_of(op).subspan(1)) {
      if (source.peer < 0) return false;
    }
    bool alone = true;
    for_each_operand([&](const Use& use) {
      if (use.operand == &dst || !overlap(*use.operand, dst)) return;
      const bool inside =
          use.operand->first >= dst.first && use.operand->first + use.operand->count <= dst.first + dst.count;
      alone &= inside && !use.writes;
    });
    return alone;
  }

  void publish() {
    for (std::size_t lane = 0; lane < program_.lanes.size(); ++lane) {
      for (std::size_t i = 0; i < program_.lanes[lane].ops.size(); ++i) {
        Op& op = program_.lanes[lane].ops[i];
        if (!can_publish(op, touches_.times[lane][i])) continue;
        op.publishes = true;
        for_each_operand([&](const Use& use) {
          if (overlap(*use.operand, op.dst)) use.operand->in_user = true;
        });
        note(op.dst, &published_);
      }
    }
  }

  void mark() {
    const auto output_chunks = shared_[1].size();
    written_.assign(output_chunks, false);
    final_.assign(output_chunks, false);
    published_.assign(output_chunks, false);
    for_each_operand([&](Use use) {
      Operand& operand = *use.operand;
      if (operand.space == Space::kScratch || operand.count == 0) return;
      operand.in_user = !shared(operand.space)[at(operand.first)];
      if (operand.space == Space::kOutput && use.writes) note(operand, &written_);
    });
    std::vector<Operand*> finals;
    for_each_operand([&](Use use) {
      if (use.writes && use.operand->count > 0 && is_final(use)) finals.push_back(use.operand);
    });
    for (Operand* operand : finals) {
      operand->in_user = true;
      note(*operand, &final_);
    }
    publish();
  }

  void list_copies() {
    const bool puts = (program_.needs & kNeedsPut) != 0;
    for (std::int32_t c = 0; c < static_cast<std::int32_t>(shared_[0].size()); ++c) {
      if (shared_[0][at(c)]) append(&program_.copy_in, Space::kInput, c);
    }
    for (std::int32_t c = 0; c < static_cast<std::int32_t>(shared_[1].size()); ++c) {
      const std::size_t i = at(c);
      const bool holds = std::ranges::any_of(
          program_.contribution, [c](const ChunkRun& run) { return c >= run.first && c < run.first + run.count; });
      const bool staged = shared_[1][i] && !published_[i];
      const bool unchanged = holds && !written_[i] && !(puts && staged);
      if (staged && holds) append(&program_.copy_in, Space::kOutput, c);
      if (holds && (!staged || unchanged)) append(&program_.carry, Space::kOutput, c);
      if (staged && !final_[i] && !unchanged) append(&program_.copy_out, Space::kOutput, c);
    }
  }

  const Touches& touches_;
  Program& program_;
  std::vector<bool> shared_[2];
  std::vector<bool> written_;
  std::vector<bool> final_;
  std::vector<bool> published_;
};

}  // namespace

bool overlap(const Operand& a, const Operand& b) {
  if (a.count == 0 || b.count == 0 || a.space != b.space || a.copy != b.copy) return false;
  return a.first < b.first + b.count && b.first < a.first + a.count;
}

void list_contribution(Program* program) {
  const std::int32_t chunks = chunks_of(program->collective, Space::kOutput, program->chunks, program->size);
  if (contributes_all(*program)) {
    program->contribution = {{Space::kOutput, 0, chunks}};
  } else if (entry_of(program->collective).input == RODA_OWN_PART) {
    program->contribution = {{Space::kOutput, program->rank, 1}};
  }
}

void place(const Touches& touches, Program* program) { Placement(touches, program).run(); }

}  // namespace roda::schedule

// The verifier's own test: it objects to every program that lacks an op, a source, a copy or a reader, does one twice
// or with another peer, or has something in another place.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <string>
#include <vector>

#include "algorithms/schedule/program.h"
#include "algorithms/schedule/schedule.h"
#include "algorithms/schedule/verifier.h"
#include "tests/unit/algorithms/schedules.h"

namespace roda::schedule {
namespace {

constexpr int kSizes[] = {2, 3, 4, 7};

class Mutation : public testing::TestWithParam<const Algorithm*> {
 protected:
  // Each rank's program in turn; `spoil` says whether there was something to spoil.
  void spoil_each(int size, const std::string& what, const std::function<bool(Program&)>& spoil) {
    for (std::size_t rank = 0; rank < programs(size).size(); ++rank) {
      std::vector<Program> ranks = made_;
      if (!spoil(ranks[rank])) continue;
      EXPECT_TRUE(verify(ranks)) << what << " of rank " << rank << " of " << size;
    }
  }

  // Each op of each lane of each rank, of each size.
  void spoil_ops(const std::string& what, const std::function<bool(Program&, LaneProgram&, Op&)>& spoil) {
    for (const int size : kSizes) {
      std::size_t lanes = 0, ops = 0;
      for (const Program& program : programs(size)) {
        lanes = std::max(lanes, program.lanes.size());
        for (const LaneProgram& lane : program.lanes) ops = std::max(ops, lane.ops.size());
      }
      for (std::size_t i = 0; i < lanes * ops; ++i) {
        spoil_each(size, what + " in op " + std::to_string(i % ops), [&](Program& program) {
          if (i / ops >= program.lanes.size() || i % ops >= program.lanes[i / ops].ops.size()) return false;
          return spoil(program, program.lanes[i / ops], program.lanes[i / ops].ops[i % ops]);
        });
      }
    }
  }

  const std::vector<Program>& programs(int size) {
    if (!made_.empty() && made_.front().size == size) return made_;
    made_.clear();
    if (!GetParam()->accepts(size)) return made_;
    const int root = is(GetParam()->collective, RODA_ROOTED) ? size / 2 : 0;
    made_ = compile(schedules_of(GetParam()->collective, GetParam()->name, size, root), GetParam()->needs).ranks;
    EXPECT_FALSE(verify(made_));
    return made_;
  }

  bool is_one_sided() const { return schedule::is_one_sided(GetParam()->needs); }

 private:
  std::vector<Program> made_;
};

// To the next chunk, or the one before. False: there is no other.
bool shift(const Program& program, Operand* operand) {
  if (operand->space == Space::kProducts || operand->count == 0) return false;
  if (operand->space == Space::kScratch && program.scratch_copies > 1) {
    operand->copy = (operand->copy + 1) % program.scratch_copies;
    return true;
  }
  const std::int32_t chunks = chunks_of(program.collective, operand->data, program.chunks, program.size);
  if (program.scratch_is_own || operand->count == chunks) return false;
  operand->first += operand->first + operand->count < chunks ? 1 : -1;
  return true;
}

bool turn(const Program& program, std::int32_t* peer) {
  do {
    *peer = *peer == kAllPeers ? 0 : (*peer + 1) % program.size;
  } while (*peer == program.rank);
  return program.size > 2;
}

TEST_P(Mutation, EveryOpIsNeeded) {
  spoil_ops("nothing", [](Program&, LaneProgram& lane, Op& op) {
    lane.ops.erase(lane.ops.begin() + (&op - lane.ops.data()));
    return true;
  });
}

TEST_P(Mutation, EveryOpIsNeededOnce) {
  spoil_ops("twice what is", [](Program& program, LaneProgram& lane, Op& op) {
    const bool starts_anew = op.sources > 0 && !(program.sources_of(op).front().operand == op.dst);
    const bool harmless = op.kind == OpKind::kDots || op.sources == 1 || starts_anew;
    lane.ops.insert(lane.ops.begin() + (&op - lane.ops.data()), Op(op));
    return !harmless;
  });
}

TEST_P(Mutation, EveryPeerAndCountMatters) {
  spoil_ops("another peer", [](Program& program, LaneProgram&, Op& op) {
    if (op.sources > 0 && program.sources_of(op).back().peer >= 0)
      return turn(program, &program.sources_of(op).back().peer);
    return op.sources == 0 && op.other.count == 0 && turn(program, &op.peer);
  });
  spoil_ops("another count", [](Program&, LaneProgram&, Op& op) {
    ++op.value;
    return op.kind == OpKind::kSignal || op.kind == OpKind::kWait;
  });
}

TEST_P(Mutation, EveryChunkMatters) {
  spoil_ops("another chunk written", [](Program& program, LaneProgram&, Op& op) { return shift(program, &op.dst); });
  spoil_ops("another chunk read", [](Program& program, LaneProgram&, Op& op) {
    return shift(program, op.sources > 0 ? &program.sources_of(op).back().operand : &op.src);
  });
}

// A sum goes on from what it has: a later source must not be written over.
TEST_P(Mutation, EverySourceOfAPassIsNeededInItsPlace) {
  spoil_ops("a source less", [](Program&, LaneProgram&, Op& op) { return op.sources > 1 && --op.sources > 0; });
  spoil_ops("the first source last", [](Program& program, LaneProgram&, Op& op) {
    const auto sources = program.sources_of(op);
    if (sources.size() < 2 || !(sources.front().operand == op.dst)) return false;
    std::swap(sources.front(), sources.back());
    return true;
  });
}

TEST_P(Mutation, EveryPlaceMatters) {
  if (!is_one_sided()) return;
  spoil_ops("result elsewhere", [](Program&, LaneProgram&, Op& op) {
    op.dst.in_user = !op.dst.in_user;
    return op.kind == OpKind::kCombine && op.dst.space == Space::kOutput;
  });
  spoil_ops("nothing published", [](Program&, LaneProgram&, Op& op) {
    const bool publishes = op.publishes;
    op.publishes = false;
    return publishes;
  });
  // Of Input both places hold the same until somebody writes over the user's.
  spoil_ops("source elsewhere", [](Program& program, LaneProgram&, Op& op) {
    bool is_there = false;
    for (Source& source : program.sources_of(op)) {
      if (source.peer >= 0 || source.operand.space != Space::kOutput) continue;
      source.operand.in_user = !source.operand.in_user;
      is_there = true;
    }
    return is_there;
  });
}

TEST_P(Mutation, EveryCopyAroundIsNeeded) {
  std::vector<std::vector<ChunkRun> Program::*> lists{&Program::contribution};
  if (is_one_sided()) lists = {&Program::copy_in, &Program::carry, &Program::copy_out};
  for (const int size : kSizes) {
    for (const auto list : lists) {
      spoil_each(size, "a chunk less",
                 [&](Program& program) { return !(program.*list).empty() && (program.*list).back().count-- > 0; });
    }
  }
}

TEST_P(Mutation, EveryReaderAndWindowIsNeeded) {
  for (const int size : kSizes) {
    for (const auto readers : {&Program::late_readers, &Program::tell_readers}) {
      spoil_each(size, "a reader less", [&](Program& program) {
        if ((program.*readers).empty()) return false;
        (program.*readers).pop_back();
        return true;
      });
    }
    for (const int window : {0, 1}) {
      spoil_each(size, "a window less", [&](Program& program) {
        const bool opens = program.window[window];
        program.window[window] = false;
        return opens;
      });
    }
    spoil_each(size, "no block", [](Program& program) {
      program.uses_block = false;
      return program.window[0] || program.window[1];
    });
  }
}

INSTANTIATE_TEST_SUITE_P(All, Mutation, testing::ValuesIn(algorithms()), [](const auto& info) {
  return std::string(collective_name(info.param->collective)) + "_" + info.param->name;
});

}  // namespace
}  // namespace roda::schedule

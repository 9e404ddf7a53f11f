// Stages beyond a plain run: buckets, several in flight, reuse, and ends by abort.
#include <gtest/gtest.h>

#include <atomic>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "core/execute/pack.h"
#include "tests/unit/execute/values.h"
#include "tests/unit/execute/world.h"
#include "transports/loop/loop.h"

namespace roda::execute::testing {
namespace {

StageArgs allreduce_args(const TransportGroup& group, std::uint64_t launch, std::size_t count, void* data) {
  StageArgs args;
  args.count = count;
  args.input = args.output = data;
  args.launch = launch;
  args.slot = static_cast<std::uint32_t>(launch % group.slots());
  return args;
}

// Three tensors in one bucket, averaged: packed, scaled and unpacked slice by slice.
TEST(Stage, BucketsNeedNoFusionBuffer) {
  for (const char* algorithm : {"direct", "twoshot", "oneshot"}) {
    const auto body = [&](Rank& self) {
      const std::size_t counts[] = {5, 1203, 700};
      Bucket bucket;
      for (std::uint64_t launch = 1; launch <= 4; ++launch) {
        std::vector<Bytes> inputs, outputs;
        std::vector<BucketTensor> tensors;
        for (const std::size_t count : counts) {
          inputs.push_back(encode(values(self.rank, count, RODA_SUM), RODA_FLOAT32));
          outputs.push_back(Bytes(inputs.back().size(), 0xee));
        }
        // In the last launch rank 2 has joined.
        const bool joined = launch == 4 && self.rank == 2;
        for (std::size_t t = 0; t < 3; ++t) {
          tensors.push_back({joined ? nullptr : inputs[t].data(), joined ? nullptr : outputs[t].data(), counts[t]});
        }
        bucket.lay_out_allreduce(tensors.data(), 3, RODA_FLOAT32);
        StageArgs args = allreduce_args(self.group, launch, bucket.elements(), nullptr);
        args.bucket = &bucket;
        args.prescale = launch % 2 == 0 ? 2.0 : 1.0;
        args.postscale = 0.5 / args.prescale;
        ASSERT_TRUE(self.run(algorithm, args).ok());
        for (std::size_t t = 0; t < 3 && !joined; ++t) {
          std::vector<double> wanted(counts[t]);
          for (std::size_t i = 0; i < counts[t]; ++i) {
            wanted[i] = reduced(launch == 4 ? 2 : 3, i, RODA_FLOAT32, RODA_SUM) / 2;
          }
          EXPECT_EQ(decode(outputs[t], RODA_FLOAT32), wanted) << algorithm << " tensor " << t;
        }
      }
    };
    run_world(3, tiny_options(), body, loop_with_far_ranks());
  }
}

TEST(Stage, ATraceHasEverySliceUnlessItIsTheOnlyOne) {
  const auto body = [](Rank& self) {
    for (const std::size_t count : {std::size_t{4000}, std::size_t{1}}) {
      Bytes data = encode(values(self.rank, count, RODA_SUM), RODA_FLOAT32);
      Trace trace;
      StageArgs args = allreduce_args(self.group, count == 1 ? 2 : 1, count, data.data());
      args.trace = &trace;
      ASSERT_TRUE(self.run("ring", args).ok());
      std::map<int, Trace::Clock::time_point> ends;  // by row: slices there follow one another
      for (std::size_t i = 0; i < trace.parts().size(); ++i) {
        const Trace::Part& part = trace.parts()[i];
        EXPECT_EQ(part.slice, i);
        EXPECT_LE(ends[part.stage], part.begin);
        EXPECT_LE(part.begin, part.end);
        ends[part.stage] = part.end;
      }
      EXPECT_EQ(trace.parts().size() > 1, count > 1) << trace.parts().size();
    }
  };
  run_world(3, tiny_options(), body);
}

TEST(Stage, OnlyStagesThatMoveSlicesTakeBuckets) {
  run_world(2, tiny_options(), [](Rank& self) {
    StageHandle ring, direct;
    ASSERT_TRUE(self.acquire(RODA_ALLREDUCE, "ring", 0, &ring).ok());
    ASSERT_TRUE(self.acquire(RODA_ALLREDUCE, "direct", 0, &direct).ok());
    EXPECT_FALSE(ring->takes_buckets());
    EXPECT_TRUE(direct->takes_buckets());
  });
}

// Each rank drives its stages in another order; every one ends right.
TEST(Stage, ManyInFlightAtOnce) {
  const std::vector<std::string> algorithms = {"ring", "direct", "oneshot", "recursive_doubling", "twoshot"};
  run_world(3, tiny_options(), [&](Rank& self) {
    constexpr std::size_t kCount = 1501;
    for (std::uint64_t round = 0; round < 20; ++round) {
      const std::size_t width = std::min<std::size_t>(self.group.slots(), algorithms.size());
      ASSERT_GE(width, 2u);
      std::vector<Bytes> data;
      std::vector<StageHandle> stages(width);
      for (std::size_t i = 0; i < width; ++i) {
        data.push_back(encode(values(self.rank, kCount, RODA_SUM, i), RODA_INT64));
        const std::uint64_t launch = round * width + i + 1;
        StageArgs args = allreduce_args(self.group, launch, kCount, data[i].data());
        args.dtype = RODA_INT64;
        args.slot = static_cast<std::uint32_t>(i);
        const std::string& algorithm = algorithms[(round + i) % algorithms.size()];
        ASSERT_TRUE(self.acquire(RODA_ALLREDUCE, algorithm, 0, &stages[i]).ok());
        ASSERT_TRUE(stages[i]->start(args).ok());
      }
      for (std::size_t i = 0; i < width; ++i) {
        const std::size_t mine = (i + static_cast<std::size_t>(self.rank)) % width;
        bool done = false;
        while (!done) {
          for (auto& stage : stages) {
            bool ended = false;
            EXPECT_TRUE(stage->test(&ended).ok());
            if (&stage == &stages[mine]) done = ended;
          }
          if (self.context.progress() == 0) std::this_thread::yield();
        }
      }
      for (std::size_t i = 0; i < width; ++i) {
        EXPECT_EQ(data[i], expected(3, kCount, RODA_INT64, RODA_SUM, i)) << algorithms[(round + i) % 5];
      }
    }
  });
}

TEST(Stage, PoolHandsTheSameStageOutAgain) {
  run_world(2, tiny_options(), [](Rank& self) {
    StageHandle first, second;
    ASSERT_TRUE(self.acquire(RODA_ALLREDUCE, "ring", 0, &first).ok());
    ASSERT_TRUE(self.acquire(RODA_ALLREDUCE, "ring", 0, &second).ok());
    EXPECT_NE(first.get(), second.get());
    Stage* const kept = first.get();
    first.reset();
    ASSERT_TRUE(self.acquire(RODA_ALLREDUCE, "ring", 0, &first).ok());
    EXPECT_EQ(first.get(), kept);
  });
}

TEST(Stage, RefusalsNameTheirReason) {
  run_world(2, tiny_options(), [](Rank& self) {
    StageHandle stage;
    EXPECT_EQ(self.acquire(RODA_ALLREDUCE, "native", 0, &stage).code(), RODA_ERR_UNSUPPORTED);
    ASSERT_TRUE(self.acquire(RODA_ALLREDUCE, "direct", 0, &stage).ok());
    float value = 1;
    StageArgs args = allreduce_args(self.group, 1, 1, &value);
    args.slot = self.group.slots();
    EXPECT_EQ(stage->start(args).code(), RODA_ERR_INVALID);
    args.slot = 0;
    args.op = RODA_ADASUM;
    EXPECT_EQ(stage->start(args).code(), RODA_ERR_UNSUPPORTED);
  });
}

// The last rank never starts. The others get stuck, and say on whom; then somebody aborts, and each ends with that
// cause.
TEST(Stage, AbortInTheMiddleEndsEveryRank) {
  for (const char* algorithm : {"ring", "recursive_doubling", "direct", "oneshot", "twoshot"}) {
    std::atomic<int> stuck{0};
    run_world(3, tiny_options(), [&](Rank& self) {
      if (self.rank == 2) return;
      Bytes data = encode(values(self.rank, 2000, RODA_SUM), RODA_FLOAT32);
      StageHandle stage;
      ASSERT_TRUE(self.acquire(RODA_ALLREDUCE, algorithm, 0, &stage).ok());
      ASSERT_TRUE(stage->start(allreduce_args(self.group, 1, 2000, data.data())).ok());
      bool done = false;
      std::uint64_t moves = 0;
      for (int still = 0; still < 100; ++still) {
        ASSERT_TRUE(stage->test(&done).ok());
        ASSERT_FALSE(done);
        self.context.progress();
        if (stage->moves() != moves) still = 0;
        moves = stage->moves();
      }
      EXPECT_NE(stage->describe().find("rank "), std::string::npos) << stage->describe();
      for (++stuck; stuck < 2;) std::this_thread::yield();
      stage->abort(Status::peer(2, "rank 2 was lost in a test"));
      const Status status = self.finish(*stage);
      EXPECT_EQ(status.message(), "rank 2 was lost in a test") << algorithm;
      EXPECT_EQ(status.rank(), 2);
      EXPECT_TRUE(self.group.quiesced(data.data(), data.size()));
      EXPECT_FALSE(stage->start(allreduce_args(self.group, 2, 2000, data.data())).ok() && self.finish(*stage).ok());
    });
  }
}

std::atomic<bool> peer_is_lost{false};

int32_t group_test_of_a_lost_peer(roda_group* group, roda_error* error) {
  if (!peer_is_lost) return roda_loop_transport()->group_test(group, error);
  return Status::peer(1, "rank 1 went away").to(error);
}

// Waiting for a signal never fails by itself: the transport's word about the group is asked for.
TEST(Stage, ALostPeerIsNoticedByWhoOnlyWaitsForSignals) {
  roda_transport transport = *roda_loop_transport();
  transport.group_test = group_test_of_a_lost_peer;
  const auto body = [&](Rank& self) {
    if (self.rank == 1) return;
    Bytes data = encode(values(0, 2000, RODA_SUM), RODA_FLOAT32);
    StageHandle stage;
    ASSERT_TRUE(self.acquire(RODA_ALLREDUCE, "direct", 0, &stage).ok());
    ASSERT_TRUE(stage->start(allreduce_args(self.group, 1, 2000, data.data())).ok());
    peer_is_lost = true;
    const Status status = self.finish(*stage);
    EXPECT_EQ(status.message(), "rank 1 went away");
    EXPECT_EQ(status.rank(), 1);
  };
  run_world(2, tiny_options(), body, &transport);
  peer_is_lost = false;
}

// Nobody calls the stage's abort; the group is aborted from another thread, as the liveness watch does.
TEST(Stage, AbortOfTheGroupFromAnotherThread) {
  run_world(2, tiny_options(), [](Rank& self) {
    if (self.rank == 1) return;
    Bytes data = encode(values(0, 2000, RODA_SUM), RODA_FLOAT32);
    StageHandle stage;
    ASSERT_TRUE(self.acquire(RODA_ALLREDUCE, "direct", 0, &stage).ok());
    ASSERT_TRUE(stage->start(allreduce_args(self.group, 1, 2000, data.data())).ok());
    std::thread watch([&] { self.group.abort(Status::timeout("no progress in a test")); });
    const Status status = self.finish(*stage);
    watch.join();
    EXPECT_EQ(status.code(), RODA_ERR_TIMEOUT);
    EXPECT_EQ(status.message(), "no progress in a test");
  });
}

}  // namespace
}  // namespace roda::execute::testing

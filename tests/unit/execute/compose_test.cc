// Compositions: every rank is a thread with its groups over the loop transport, on nested grids of two to four levels
// and on a torus.
#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <memory>
#include <numeric>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "algorithms/plan/compile.h"
#include "algorithms/plan/plan.h"
#include "tests/unit/execute/adasum_values.h"
#include "tests/unit/execute/compose_world.h"
#include "tests/unit/execute/values.h"

namespace roda::execute::testing {
namespace {

using schedule::Collective;

struct Case {
  const char* name;
  plan::Grid grid;
};

plan::Grid hosts(const std::vector<int>& sizes) {
  std::vector<std::int32_t> host_of;
  for (std::size_t host = 0; host < sizes.size(); ++host) {
    host_of.insert(host_of.end(), static_cast<std::size_t>(sizes[host]), static_cast<std::int32_t>(host));
  }
  return plan::nested_grid({{"host", host_of}});
}

std::vector<Case> cases() {
  return {{"hosts_2_2", hosts({2, 2})},
          {"hosts_1_2_3", hosts({1, 2, 3})},
          {"hosts_5_3", hosts({5, 3})},
          {"hosts_3_1_1", hosts({3, 1, 1})},
          {"alternating", plan::nested_grid({{"host", {0, 1, 1, 0, 1, 0}}})},
          {"levels_2_2_2", plan::nested_grid({{"host", {0, 0, 1, 1, 2, 2, 3, 3}}, {"rack", {0, 0, 0, 0, 1, 1, 1, 1}}})},
          {"uneven_racks", plan::nested_grid({{"host", {0, 0, 0, 1, 2, 2, 3, 4}}, {"rack", {0, 0, 0, 0, 0, 0, 1, 1}}})},
          {"four_levels", plan::nested_grid({{"socket", {0, 0, 1, 2, 3, 3, 4, 5}},
                                             {"host", {0, 0, 0, 1, 1, 1, 2, 3}},
                                             {"rack", {0, 0, 0, 0, 0, 0, 1, 1}}})},
          {"torus_3_2", plan::torus_grid({3, 2})}};
}

class ComposeTest : public ::testing::TestWithParam<Case> {
 protected:
  const plan::Grid& grid() const { return GetParam().grid; }
  int size() const { return grid().ranks(); }
};

const plan::Choice kMessages{};
const plan::Choice kOneSided{"direct", "direct", "direct", "direct", "direct"};

void check_allreduce(Member& self, const plan::Plan& plan) {
  const auto stage = self.stage(plan);
  for (const int dtype : {RODA_FLOAT32, RODA_INT64, RODA_BFLOAT16}) {
    for (const std::size_t count : {0, 1, 7, 1000, 4099}) {
      for (const bool in_place : {false, true}) {
        const int op = count == 1000 ? RODA_MAX : RODA_SUM;
        const Bytes input = encode(values(self.rank(), count, op), dtype);
        Bytes output = in_place ? input : Bytes(input.size(), 0xee);
        StageArgs args = self.args(RODA_ALLREDUCE, count, dtype, op);
        args.input = in_place ? output.data() : input.data();
        args.output = output.data();
        const Status status = self.run(*stage, args);
        EXPECT_TRUE(status.ok()) << status.message();
        EXPECT_EQ(output, expected(self.size(), count, dtype, op)) << "rank " << self.rank() << ", " << count;
      }
    }
  }
}

TEST_P(ComposeTest, Allreduce) {
  for (const auto& choice : {kMessages, kOneSided, plan::Choice{"direct", "recursive_doubling", "ring"}}) {
    const plan::Plan plan = plan::hierarchical(grid(), {choice, kMessages});
    run_grid(grid(), [&](Member& self) { check_allreduce(self, plan); });
  }
}

// Sums inside hosts, and the Adasum of these between them. Ranks of a host need not follow each other.
TEST(Compose, AdasumBetweenHosts) {
  const std::vector<std::size_t> counts{100, 0, 7, 250, 1};
  const std::vector<std::size_t> begins = begins_of(counts);
  for (const auto& host_of : {std::vector{0, 0, 1, 1}, std::vector{0, 1, 0, 1}, std::vector{0, 0, 1, 1, 2, 2, 3, 3},
                              std::vector{1, 0, 0, 1, 0, 1, 1, 0}, std::vector{0, 1, 2, 3}}) {
    const plan::Grid grid = plan::nested_grid({{"host", host_of}});
    const plan::Plan plan = plan::hierarchical(Collective::kAdasum, grid, {kOneSided, kMessages});
    const schedule::Program program = plan::Compiler(plan, grid).outline(0);
    std::vector<Values> inputs;  // host by host
    for (const std::int32_t rank : *program.calls[plan.stages.size() / 2].members) {
      inputs.push_back(adasum_input(rank, counts));
    }
    run_grid(grid, [&](Member& self) {
      const auto stage = self.stage(plan);
      Values data = adasum_input(self.rank(), counts);
      StageArgs args = self.args(RODA_ADASUM_ALLREDUCE, data.size(), RODA_FLOAT64);
      args.input = args.output = data.data();
      args.tensor_begins = begins.data();
      args.tensors = begins.size();
      const Status status = self.run(*stage, args);
      ASSERT_TRUE(status.ok()) << status.message();
      for (std::size_t t = 0; t < counts.size(); ++t) {
        std::vector<Values> tensor;
        for (const Values& input : inputs) tensor.push_back(part_of(input, begins[t], counts[t]));
        const auto shares = static_cast<std::size_t>(std::max(program.root, 1));
        const Values expected = adasum_of(tensor, 0, inputs.size(), shares);
        for (std::size_t i = 0; i < counts[t]; ++i) ASSERT_NEAR(data[begins[t] + i], expected[i], 1e-10) << t;
      }
    });
  }
}

// Every rank runs the stages inside its host by itself.
TEST(Compose, AllreduceOverHostsOfOneRankWithStagesInside) {
  const plan::Grid grid = hosts({1, 1, 1});
  plan::Choice alone = kMessages;
  alone.even_alone = true;
  const plan::Plan plan = plan::hierarchical(grid, {alone, kMessages});
  ASSERT_EQ(plan.stages.size(), 3u);
  for (int rank = 0; rank < 3; ++rank) {
    EXPECT_EQ(*plan::Compiler(plan, grid).outline(rank).calls.front().members, std::vector<std::int32_t>{rank});
  }
  run_grid(grid, [&](Member& self) { check_allreduce(self, plan); });
}

TEST_P(ComposeTest, AllreduceAlongEachAxis) {
  if (!grid().is_even()) return;
  const plan::Plan plan =
      plan::reduce_along_each_axis("two_step", grid(), {plan::Choice{"", "oneshot", ""}, kMessages});
  run_grid(grid(), [&](Member& self) { check_allreduce(self, plan); });
}

TEST_P(ComposeTest, Broadcast) {
  const plan::Plan plan = plan::hierarchical(Collective::kBroadcast, grid(), {kOneSided, kMessages});
  run_grid(grid(), [&](Member& self) {
    for (int root = 0; root < size(); ++root) {
      const auto stage = self.stage(plan, root);
      for (const std::size_t count : {0, 1, 1000}) {
        for (const bool in_place : {false, true}) {
          const Bytes data = encode(values(root, count, RODA_SUM), RODA_FLOAT32);
          Bytes output = in_place && self.rank() == root ? data : Bytes(data.size(), 0xee);
          StageArgs args = self.args(RODA_BROADCAST, count);
          args.root = root;
          args.input = self.rank() == root && !in_place ? data.data() : nullptr;
          args.output = output.data();
          const Status status = self.run(*stage, args);
          EXPECT_TRUE(status.ok()) << status.message();
          EXPECT_EQ(output, data) << "rank " << self.rank() << " root " << root;
        }
      }
    }
  });
}

TEST_P(ComposeTest, Reduce) {
  plan::Choice direct = kOneSided, trees = kMessages;
  direct.reduce = "direct";
  trees.reduce = "double_binary_tree";
  const plan::Plan plan = plan::hierarchical(Collective::kReduce, grid(), {direct, trees});
  run_grid(grid(), [&](Member& self) {
    for (int root = 0; root < size(); ++root) {
      const auto stage = self.stage(plan, root);
      const bool is_root = self.rank() == root;
      for (const std::size_t count : {0, 1, 1000}) {
        for (const bool in_place : {false, true}) {
          const Bytes data = encode(values(self.rank(), count, RODA_SUM), RODA_FLOAT32);
          const Bytes sum = expected(size(), count, RODA_FLOAT32, RODA_SUM);
          Bytes input = data, output(data.size(), 0xee);
          StageArgs args = self.args(RODA_REDUCE, count);
          args.root = root;
          args.input = input.data();
          args.output = !is_root ? nullptr : in_place ? input.data() : output.data();
          const Status status = self.run(*stage, args);
          EXPECT_TRUE(status.ok()) << status.message();
          if (is_root) {
            EXPECT_EQ(in_place ? input : output, sum) << "root " << root;
          }
          if (!is_root || !in_place) {
            EXPECT_EQ(input, data) << "rank " << self.rank() << " root " << root;
          }
        }
      }
    }
  });
}

// Some members have nothing, some less, some more.
std::vector<std::size_t> uneven(int size, std::size_t count) {
  std::vector<std::size_t> counts;
  for (int r = 0; r < size; ++r) counts.push_back(r % 4 == 2 ? 0 : count / (1 + static_cast<std::size_t>(r) % 3));
  return counts;
}

TEST_P(ComposeTest, Allgather) {
  for (const auto& choice : {kMessages, kOneSided}) {
    const plan::Plan plan = plan::hierarchical(Collective::kAllgather, grid(), {choice, kMessages});
    run_grid(grid(), [&](Member& self) {
      const auto stage = self.stage(plan);
      for (const std::size_t count : {0, 1, 7, 1000}) {
        const auto counts = uneven(size(), count);
        Bytes all;
        for (int r = 0; r < size(); ++r) {
          const Bytes part = encode(values(r, counts[static_cast<std::size_t>(r)], RODA_SUM), RODA_FLOAT32);
          all.insert(all.end(), part.begin(), part.end());
        }
        const std::size_t own = counts[static_cast<std::size_t>(self.rank())];
        const Bytes input = encode(values(self.rank(), own, RODA_SUM), RODA_FLOAT32);
        Bytes output(all.size(), 0xee);
        StageArgs args = self.args(RODA_ALLGATHER, 0);
        args.recv_counts = counts.data();
        args.input = input.data();
        args.output = output.data();
        const Status status = self.run(*stage, args);
        EXPECT_TRUE(status.ok()) << status.message();
        EXPECT_EQ(output, all) << "rank " << self.rank() << ", " << count;
      }
    });
  }
}

TEST_P(ComposeTest, ReduceScatter) {
  for (const auto& choice : {kMessages, kOneSided}) {
    const plan::Plan plan = plan::hierarchical(Collective::kReduceScatter, grid(), {choice, kMessages});
    run_grid(grid(), [&](Member& self) {
      const auto stage = self.stage(plan);
      for (const std::size_t count : {0, 1, 7, 1000}) {
        const auto counts = uneven(size(), count);
        const auto self_at = counts.begin() + self.rank();
        const std::size_t begin = std::accumulate(counts.begin(), self_at, std::size_t{0});
        const std::size_t total = std::accumulate(counts.begin(), counts.end(), std::size_t{0});
        const Bytes input = encode(values(self.rank(), total, RODA_SUM), RODA_FLOAT32);
        Bytes output(*self_at * 4, 0xee);
        StageArgs args = self.args(RODA_REDUCESCATTER, total);
        args.recv_counts = counts.data();
        args.input = input.data();
        args.output = output.data();
        const Status status = self.run(*stage, args);
        EXPECT_TRUE(status.ok()) << status.message();
        EXPECT_EQ(output, expected(size(), *self_at, RODA_FLOAT32, RODA_SUM, begin)) << "rank " << self.rank();
      }
    });
  }
}

// Elements from `from` to `to`; the seed is the same on every rank.
std::vector<std::size_t> random_matrix(int size, std::size_t most, unsigned seed) {
  std::mt19937 random(seed);
  std::vector<std::size_t> counts(static_cast<std::size_t>(size * size));
  for (auto& count : counts) count = random() % 3 == 0 ? 0 : random() % (most + 1);
  return counts;
}

TEST_P(ComposeTest, Alltoall) {
  const auto n = static_cast<std::size_t>(size());
  for (const auto& choice : {kMessages, kOneSided}) {
    const plan::Plan plan = plan::hierarchical(Collective::kAlltoall, grid(), {choice, kMessages});
    run_grid(grid(), [&](Member& self) {
      const auto stage = self.stage(plan);
      const auto own = static_cast<std::size_t>(self.rank());
      for (const std::size_t most : {0, 1, 9, 700}) {
        const auto all = random_matrix(size(), most, static_cast<unsigned>(most));
        // What goes from a to b: values numbered by both.
        const auto block = [&](std::size_t a, std::size_t b) {
          return encode(values(static_cast<int>(a * n + b), all[a * n + b], RODA_SUM), RODA_FLOAT32);
        };
        Bytes input, wanted;
        std::vector<std::size_t> sent, received;
        for (std::size_t r = 0; r < n; ++r) {
          const Bytes out = block(own, r), in = block(r, own);
          input.insert(input.end(), out.begin(), out.end());
          wanted.insert(wanted.end(), in.begin(), in.end());
          sent.push_back(all[own * n + r]);
          received.push_back(all[r * n + own]);
        }
        Bytes output(wanted.size(), 0xee);
        StageArgs args = self.args(RODA_ALLTOALL, 0);
        args.send_counts = sent.data();
        args.recv_counts = received.data();
        args.all_counts = all.data();
        args.input = input.data();
        args.output = output.data();
        const Status status = self.run(*stage, args);
        EXPECT_TRUE(status.ok()) << status.message();
        EXPECT_EQ(output, wanted) << "rank " << self.rank() << ", " << most;
      }
    });
  }
}

INSTANTIATE_TEST_SUITE_P(Grids, ComposeTest, ::testing::ValuesIn(cases()),
                         [](const auto& info) { return std::string(info.param.name); });

TEST(Compose, ATraceHasEveryCallOfEverySlice) {
  const plan::Grid grid = hosts({2, 2});
  const plan::Plan plan = plan::hierarchical(grid, {});
  run_grid(grid, [&](Member& self) {
    const auto stage = self.stage(plan);
    Bytes data = encode(values(self.rank(), 4000, RODA_SUM), RODA_FLOAT32);
    Trace trace;
    StageArgs args = self.args(RODA_ALLREDUCE, 4000);
    args.input = args.output = data.data();
    args.trace = &trace;
    ASSERT_TRUE(self.run(*stage, args).ok());
    std::map<std::pair<int, std::size_t>, std::string> calls;
    for (const Trace::Part& part : trace.parts()) {
      EXPECT_LE(part.begin, part.end);
      EXPECT_TRUE(calls.emplace(std::pair(part.stage, part.slice), part.what).second) << "told of twice";
    }
    const std::size_t slices = calls.size() / plan.stages.size();
    EXPECT_GT(slices, 1u);
    const char* const names[] = {"LOOP_REDUCESCATTER", "LOOP_ALLREDUCE", "LOOP_ALLGATHER"};
    for (std::size_t slice = 0; slice < slices; ++slice) {
      for (int at = 0; at < 3; ++at) EXPECT_EQ((calls[{at, slice}]), names[at]) << at << ", " << slice;
    }
    args = self.args(RODA_ALLREDUCE, 4000);
    args.input = args.output = data.data();
    ASSERT_TRUE(self.run(*stage, args).ok());
    EXPECT_EQ(calls.size(), trace.parts().size()) << "told of what nobody asked for";
  });
}

// An error in one group ends the composition with it, and what ran elsewhere.
TEST(ComposeErrors, AnAbortEndsEveryGroup) {
  const plan::Grid grid = hosts({2, 2});
  const plan::Plan plan = plan::hierarchical(grid, {});
  run_grid(grid, [&](Member& self) {
    const auto stage = self.stage(plan);
    Bytes data = encode(values(self.rank(), 4000, RODA_SUM), RODA_FLOAT32);
    StageArgs args = self.args(RODA_ALLREDUCE, 4000);
    args.input = args.output = data.data();
    if (self.rank() == 3) return self.abort_all(Status::unknown("a test wants it so"));
    if (self.rank() == 0) {  // in no group with rank 3: hears of it through the others
      ASSERT_TRUE(stage->start(args).ok());
      bool done = false;
      static_cast<void>(stage->test(&done));
      stage->abort(Status::unknown("rank 3 is gone"));
      while (!done) static_cast<void>(stage->test(&done));
      return;
    }
    EXPECT_FALSE(self.run(*stage, args).ok());
  });
}

}  // namespace
}  // namespace roda::execute::testing

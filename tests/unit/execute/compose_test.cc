// Compositions over hosts: every rank is a thread, in a row and a column of its own over the loop transport.
#include <gtest/gtest.h>

#include <atomic>
#include <barrier>
#include <functional>
#include <memory>
#include <numeric>
#include <string>
#include <thread>
#include <vector>

#include "core/execute/compose/composed_stage.h"
#include "core/execute/compose/gather_levels.h"
#include "core/execute/compose/levels.h"
#include "tests/unit/execute/values.h"
#include "tests/unit/execute/world.h"
#include "transports/loop/loop.h"

namespace roda::execute::testing {
namespace {

constexpr std::size_t kPiece = 512;  // so small that a thousand elements are many pieces
constexpr std::uint32_t kLaunches = 2;

// Ranks per host, hosts in order of their ranks.
using Rows = std::vector<int>;

int ranks_of(const Rows& rows) { return std::accumulate(rows.begin(), rows.end(), 0); }

// One rank: its place and the pools of its row and column.
struct Member {
  int rank = 0;
  int row = 0;
  Levels levels;
  TransportContext* context = nullptr;

  Status run(Stage& stage, const StageArgs& args) const {
    RODA_RETURN_IF_ERROR(stage.start(args));
    bool done = false;
    Status status = stage.test(&done);
    while (!done) {
      if (context->progress() == 0) std::this_thread::yield();
      status = stage.test(&done);
    }
    return status;
  }
};

// A group of some of the world's ranks, and its stages.
struct Part {
  Part(TransportContext& context, Exchange* exchange, const std::string& name, const std::vector<std::int32_t>& ranks,
       int self, const ExecuteOptions& options) {
    EXPECT_TRUE(TransportGroup::create(context, {name, self, ranks, 1, 0, exchange->end(self)}, &group).ok());
    for (bool ready = false; !ready;) {
      const Status status = group->test(&ready);
      EXPECT_TRUE(status.ok()) << status.message();
      if (!ready && context.progress() == 0) std::this_thread::yield();
    }
    pool = std::make_unique<StagePool>(*group, options);
  }
  std::unique_ptr<TransportGroup> group;
  std::unique_ptr<StagePool> pool;
};

// Runs `body` on every rank of a table of hosts.
void run_table(const Rows& rows, const std::function<void(Member&)>& body) {
  static std::atomic<int> tables{0};
  const std::string name = "table" + std::to_string(++tables);
  const int columns = *std::min_element(rows.begin(), rows.end());
  std::vector<std::unique_ptr<Exchange>> row_exchanges, column_exchanges;
  for (const int length : rows) row_exchanges.push_back(std::make_unique<Exchange>(length));
  for (int c = 0; c < columns; ++c)
    column_exchanges.push_back(std::make_unique<Exchange>(static_cast<int>(rows.size())));
  std::vector<int> first(rows.size());
  std::exclusive_scan(rows.begin(), rows.end(), first.begin(), 0);
  std::barrier<> left(ranks_of(rows));

  const auto thread = [&](std::size_t row, int index) {
    std::unique_ptr<TransportContext> context;
    ASSERT_TRUE(TransportContext::create(roda_loop_transport(), test_host(), &context).ok());
    Member self{first[row] + index, static_cast<int>(row), {}, context.get()};
    self.levels.row_size = rows[row];
    self.levels.index = index;
    self.levels.columns = columns;
    std::unique_ptr<Part> in_row, in_column;
    if (rows[row] > 1) {
      std::vector<std::int32_t> ranks(static_cast<std::size_t>(rows[row]));
      std::iota(ranks.begin(), ranks.end(), first[row]);
      in_row = std::make_unique<Part>(*context, row_exchanges[row].get(), name + "/row" + std::to_string(row), ranks,
                                      index, tiny_options());
      self.levels.row = in_row->pool.get();
    }
    if (index < columns) {
      std::vector<std::int32_t> ranks;
      for (const int f : first) ranks.push_back(f + index);
      in_column = std::make_unique<Part>(*context, column_exchanges[static_cast<std::size_t>(index)].get(),
                                         name + "/column" + std::to_string(index), ranks, self.row, tiny_options());
      self.levels.column = in_column->pool.get();
    }
    body(self);
    left.arrive_and_wait();
    if (in_row != nullptr) in_row->pool.reset();
    if (in_column != nullptr) in_column->pool.reset();
    in_row.reset();
    in_column.reset();
  };
  std::vector<std::thread> threads;
  for (std::size_t row = 0; row < rows.size(); ++row) {
    for (int index = 0; index < rows[row]; ++index) threads.emplace_back(thread, row, index);
  }
  for (auto& t : threads) t.join();
}

StageArgs args_of(int collective, int dtype, int op, std::size_t count, std::uint64_t launch) {
  StageArgs args;
  args.collective = collective;
  args.dtype = dtype;
  args.op = op;
  args.count = count;
  args.launch = launch;
  args.slot = static_cast<std::uint32_t>(launch % kLaunches);
  args.generation = 1;
  return args;
}

void check_allreduce(Member& self, int size, Stage& stage) {
  std::uint64_t launch = 1;
  for (const int dtype : {RODA_FLOAT32, RODA_INT64, RODA_BFLOAT16}) {
    for (const std::size_t count : {0, 1, 7, 1000, 4099}) {
      for (const bool in_place : {false, true}) {
        const int op = count == 1000 ? RODA_MAX : RODA_SUM;
        const Bytes input = encode(values(self.rank, count, op), dtype);
        Bytes output = in_place ? input : Bytes(input.size(), 0xee);
        StageArgs args = args_of(RODA_ALLREDUCE, dtype, op, count, launch++);
        args.input = in_place ? output.data() : input.data();
        args.output = output.data();
        const Status status = self.run(stage, args);
        EXPECT_TRUE(status.ok()) << status.message();
        EXPECT_EQ(output, expected(size, count, dtype, op)) << "rank " << self.rank << ", " << count << " elements";
      }
    }
  }
}

class TableTest : public ::testing::TestWithParam<Rows> {};

TEST_P(TableTest, AllreduceByShards) {
  const Rows& rows = GetParam();
  for (const bool one_sided : {false, true}) {
    run_table(rows, [&](Member& self) {
      const RowColumnAllreduce::Algorithms algorithms =
          one_sided ? RowColumnAllreduce::Algorithms{"direct", "recursive_doubling", "direct"}
                    : RowColumnAllreduce::Algorithms{"ring", "ring", "ring"};
      ComposedStage stage("shards", std::make_unique<RowColumnAllreduce>(self.levels, algorithms, kPiece), kLaunches);
      check_allreduce(self, ranks_of(rows), stage);
    });
  }
}

TEST_P(TableTest, AllreduceInTwoSteps) {
  const Rows& rows = GetParam();
  if (*std::min_element(rows.begin(), rows.end()) != *std::max_element(rows.begin(), rows.end())) return;
  run_table(rows, [&](Member& self) {
    ComposedStage stage("two steps", std::make_unique<RowThenColumnAllreduce>(self.levels, "oneshot", "ring"),
                        kLaunches);
    check_allreduce(self, ranks_of(rows), stage);
  });
}

TEST_P(TableTest, Broadcast) {
  const Rows& rows = GetParam();
  const int columns = *std::min_element(rows.begin(), rows.end());
  if (columns != *std::max_element(rows.begin(), rows.end())) return;
  run_table(rows, [&](Member& self) {
    std::uint64_t launch = 1;
    for (int root = 0; root < ranks_of(rows); ++root) {
      ComposedStage stage("broadcast",
                          std::make_unique<ColumnThenRowBroadcast>(self.levels, root % columns, root / columns,
                                                                   "binomial", "direct", kPiece),
                          kLaunches);
      for (const std::size_t count : {0, 1, 1000}) {
        for (const bool in_place : {false, true}) {
          const Bytes data = encode(values(root, count, RODA_SUM), RODA_FLOAT32);
          Bytes output = in_place && self.rank == root ? data : Bytes(data.size(), 0xee);
          StageArgs args = args_of(RODA_BROADCAST, RODA_FLOAT32, RODA_SUM, count, launch++);
          args.root = root;
          args.input = self.rank == root && !in_place ? data.data() : nullptr;
          args.output = output.data();
          const Status status = self.run(stage, args);
          EXPECT_TRUE(status.ok()) << status.message();
          EXPECT_EQ(output, data) << "rank " << self.rank << " root " << root;
        }
      }
    }
  });
}

MemberTable table_of(const Rows& rows) {
  MemberTable table;
  int next = 0;
  for (const int length : rows) {
    auto& row = table.emplace_back(static_cast<std::size_t>(length));
    std::iota(row.begin(), row.end(), next);
    next += length;
  }
  return table;
}

// Some members have nothing, some less, some more.
std::vector<std::size_t> uneven(int size, std::size_t count) {
  std::vector<std::size_t> counts;
  for (int r = 0; r < size; ++r) counts.push_back(r % 4 == 2 ? 0 : count / (1 + static_cast<std::size_t>(r) % 3));
  return counts;
}

TEST_P(TableTest, Allgather) {
  const Rows& rows = GetParam();
  if (*std::min_element(rows.begin(), rows.end()) != *std::max_element(rows.begin(), rows.end())) return;
  const int size = ranks_of(rows);
  run_table(rows, [&](Member& self) {
    ComposedStage stage("allgather",
                        std::make_unique<ColumnThenRowAllgather>(self.levels, table_of(rows), "ring", "direct"),
                        kLaunches);
    std::uint64_t launch = 1;
    for (const std::size_t count : {0, 1, 7, 1000}) {
      const auto counts = uneven(size, count);
      Bytes all;
      for (int r = 0; r < size; ++r) {
        const Bytes part = encode(values(r, counts[static_cast<std::size_t>(r)], RODA_SUM), RODA_FLOAT32);
        all.insert(all.end(), part.begin(), part.end());
      }
      const Bytes input =
          encode(values(self.rank, counts[static_cast<std::size_t>(self.rank)], RODA_SUM), RODA_FLOAT32);
      Bytes output(all.size(), 0xee);
      StageArgs args = args_of(RODA_ALLGATHER, RODA_FLOAT32, RODA_SUM, 0, launch++);
      args.recv_counts = counts.data();
      args.input = input.data();
      args.output = output.data();
      const Status status = self.run(stage, args);
      EXPECT_TRUE(status.ok()) << status.message();
      EXPECT_EQ(output, all) << "rank " << self.rank << ", " << count;
    }
  });
}

TEST_P(TableTest, ReduceScatter) {
  const Rows& rows = GetParam();
  if (*std::min_element(rows.begin(), rows.end()) != *std::max_element(rows.begin(), rows.end())) return;
  const int size = ranks_of(rows);
  run_table(rows, [&](Member& self) {
    ComposedStage stage("reduce-scatter",
                        std::make_unique<RowThenColumnReduceScatter>(self.levels, table_of(rows), "direct", "ring"),
                        kLaunches);
    std::uint64_t launch = 1;
    for (const std::size_t count : {0, 1, 7, 1000}) {
      const auto counts = uneven(size, count);
      std::size_t total = 0, begin = 0;
      for (int r = 0; r < size; ++r) {
        if (r == self.rank) begin = total;
        total += counts[static_cast<std::size_t>(r)];
      }
      const std::size_t own = counts[static_cast<std::size_t>(self.rank)];
      const Bytes input = encode(values(self.rank, total, RODA_SUM), RODA_FLOAT32);
      Bytes output(own * 4, 0xee);
      StageArgs args = args_of(RODA_REDUCESCATTER, RODA_FLOAT32, RODA_SUM, total, launch++);
      args.recv_counts = counts.data();
      args.input = input.data();
      args.output = output.data();
      const Status status = self.run(stage, args);
      EXPECT_TRUE(status.ok()) << status.message();
      EXPECT_EQ(output, expected(size, own, RODA_FLOAT32, RODA_SUM, begin)) << "rank " << self.rank << ", " << count;
    }
  });
}

INSTANTIATE_TEST_SUITE_P(Tables, TableTest,
                         ::testing::Values(Rows{2, 2}, Rows{1, 2}, Rows{3, 1, 2}, Rows{4, 4}, Rows{2, 2, 2}, Rows{5, 3},
                                           Rows{1, 1, 3}),
                         [](const auto& info) {
                           std::string name = "hosts";
                           for (const int length : info.param) name += "_" + std::to_string(length);
                           return name;
                         });

// An error in one group ends the composition with it, and what ran elsewhere.
TEST(ComposeTest, AnAbortEndsEveryGroup) {
  run_table({2, 2}, [](Member& self) {
    ComposedStage stage("shards",
                        std::make_unique<RowColumnAllreduce>(
                            self.levels, RowColumnAllreduce::Algorithms{"ring", "ring", "ring"}, kPiece),
                        kLaunches);
    Bytes data = encode(values(self.rank, 4000, RODA_SUM), RODA_FLOAT32);
    StageArgs args = args_of(RODA_ALLREDUCE, RODA_FLOAT32, RODA_SUM, 4000, 1);
    args.input = args.output = data.data();
    if (self.rank == 3) {
      self.levels.row->group().abort(Status::unknown("a test wants it so"));
      self.levels.column->group().abort(Status::unknown("a test wants it so"));
      return;
    }
    if (self.rank == 0) {  // in no group with rank 3: hears of it through the others
      ASSERT_TRUE(stage.start(args).ok());
      bool done = false;
      static_cast<void>(stage.test(&done));
      stage.abort(Status::unknown("rank 3 is gone"));
      while (!done) static_cast<void>(stage.test(&done));
      return;
    }
    EXPECT_FALSE(self.run(stage, args).ok());
  });
}

}  // namespace
}  // namespace roda::execute::testing

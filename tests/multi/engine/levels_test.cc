// Every collective with random sizes on several hosts, beside what a loop over the ranks gives. Values are small whole
// numbers, so sums are exact in any order.
#include <gtest/gtest.h>

#include <cstdlib>
#include <memory>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "tests/multi/engine/elements.h"
#include "tests/multi/engine/rank.h"

namespace roda::test {
namespace {

using Shape = std::vector<std::int64_t>;

constexpr int kRounds = 12;
constexpr std::size_t kPeriod = 251;

float value_of(int owner, std::size_t index) {
  return static_cast<float>((owner * 7 + static_cast<int>(index % kPeriod)) % 64);
}

std::vector<float> values(int owner, std::size_t count) {
  return repeating(kPeriod, count, [&](std::size_t i) { return value_of(owner, i); });
}

std::vector<float> sums(const std::vector<int>& owners, std::size_t count, std::size_t from = 0) {
  const auto sum = [&](std::size_t i) {
    float all = 0;
    for (const int owner : owners) all += value_of(owner, i);
    return all;
  };
  return repeating(kPeriod, count, sum, from);
}

std::vector<int> everybody() {
  std::vector<int> ranks(static_cast<std::size_t>(size()));
  std::iota(ranks.begin(), ranks.end(), 0);
  return ranks;
}

// Sizes around nothing, a cache line, a block and several pieces; the same on every rank.
class Sizes {
 public:
  explicit Sizes(unsigned seed) : random_(seed) {}
  std::int64_t next() {
    static constexpr std::int64_t kMost[] = {3, 40, 5000, 70000, 1200000};
    return static_cast<std::int64_t>(random_() % static_cast<std::uint64_t>(kMost[random_() % 5]));
  }
  std::uint64_t below(std::uint64_t limit) { return random_() % limit; }

 private:
  std::mt19937_64 random_;
};

TEST(Levels, AreWhatRuns) {
  const char* expected = std::getenv("LEVELS_TEST_EXPECTS");
  if (expected == nullptr) GTEST_SKIP() << "nothing is asked for";
  roda_error error{};
  error.struct_size = sizeof error;
  const std::unique_ptr<char, void (*)(char*)> text(roda_explain(RODA_ALLREDUCE, 64 << 20, 0, 0, &error),
                                                    roda_free_text);
  ASSERT_NE(text, nullptr) << error.message;
  const std::string words = text.get();
  const std::size_t chosen = words.find("  > ");
  ASSERT_NE(chosen, std::string::npos) << words;
  EXPECT_NE(words.find(expected, chosen), std::string::npos) << words;
}

TEST(Levels, Allreduce) {
  Sizes sizes(1);
  for (int round = 0; round < kRounds; ++round) {
    const std::int64_t count = sizes.next();
    const auto input = values(rank(), static_cast<std::size_t>(count));
    std::vector<float> output(input.size(), -1);
    const std::string name = "sum" + std::to_string(round);
    const Shape shape{count};
    const Outcome outcome = run(make_op(RODA_ALLREDUCE, name, shape, input.data(), output.data()));
    ASSERT_EQ(outcome.code, RODA_OK) << outcome.message;
    ASSERT_TRUE(are_equal(output, sums(everybody(), output.size())));
  }
}

// More pieces than a composition has in flight: its first stage of a later piece meets the last one of an earlier.
TEST(Levels, AllreduceOfManyPieces) {
  for (int round = 0; round < 3; ++round) {
    const Shape shape{5'000'000 + round};
    const auto input = values(rank(), static_cast<std::size_t>(shape[0]));
    std::vector<float> output(input.size(), -1);
    const Outcome outcome =
        run(make_op(RODA_ALLREDUCE, "many" + std::to_string(round), shape, input.data(), output.data()));
    ASSERT_EQ(outcome.code, RODA_OK) << outcome.message;
    ASSERT_TRUE(are_equal(output, sums(everybody(), output.size())));
  }
}

TEST(Levels, Broadcast) {
  Sizes sizes(2);
  for (int round = 0; round < kRounds; ++round) {
    const std::int64_t count = sizes.next();
    const int root = round % size();
    auto data = values(rank(), static_cast<std::size_t>(count));
    const std::string name = "root" + std::to_string(round);
    const Shape shape{count};
    roda_op op = make_op(RODA_BROADCAST, name, shape, data.data(), data.data());
    op.root = root;
    const Outcome outcome = run(op);
    ASSERT_EQ(outcome.code, RODA_OK) << outcome.message;
    ASSERT_TRUE(are_equal(data, values(root, data.size()))) << "from " << root;
  }
}

TEST(Levels, Reduce) {
  Sizes sizes(6);
  for (int round = 0; round < kRounds; ++round) {
    const std::int64_t count = sizes.next();
    const int root = round % size();
    const auto input = values(rank(), static_cast<std::size_t>(count));
    std::vector<float> output(input.size(), -1);
    const std::string name = "to" + std::to_string(round);
    const Shape shape{count};
    roda_op op = make_op(RODA_REDUCE, name, shape, input.data(), output.data());
    op.root = root;
    const Outcome outcome = run(op);
    ASSERT_EQ(outcome.code, RODA_OK) << outcome.message;
    const bool is_root = rank() == root;
    ASSERT_TRUE(are_equal(output, is_root ? sums(everybody(), output.size()) : std::vector<float>(output.size(), -1)))
        << "to " << root;
    ASSERT_TRUE(are_equal(input, values(rank(), input.size())));
  }
}

TEST(Levels, Allgather) {
  Sizes sizes(3);
  for (int round = 0; round < kRounds; ++round) {
    std::vector<std::int64_t> rows;
    for (int r = 0; r < size(); ++r) rows.push_back(sizes.below(4) == 0 ? 0 : sizes.next() / size());
    const std::int64_t own = rows[static_cast<std::size_t>(rank())];
    const auto input = values(rank(), static_cast<std::size_t>(own));
    const std::string name = "gather" + std::to_string(round);
    const auto out = run_owned<float>(make_op(RODA_ALLGATHER, name, {own}, input.data(), nullptr));
    ASSERT_EQ(out.outcome.code, RODA_OK) << out.outcome.message;
    std::vector<float> expected;
    for (int r = 0; r < size(); ++r) {
      const auto part = values(r, static_cast<std::size_t>(rows[static_cast<std::size_t>(r)]));
      expected.insert(expected.end(), part.begin(), part.end());
    }
    ASSERT_TRUE(are_equal(out.values, expected)) << "round " << round;
  }
}

TEST(Levels, Reducescatter) {
  Sizes sizes(4);
  for (int round = 0; round < kRounds; ++round) {
    const std::int64_t rows = sizes.next();
    const auto input = values(rank(), static_cast<std::size_t>(rows));
    const std::string name = "scatter" + std::to_string(round);
    const auto out = run_owned<float>(make_op(RODA_REDUCESCATTER, name, {rows}, input.data(), nullptr));
    ASSERT_EQ(out.outcome.code, RODA_OK) << out.outcome.message;
    const auto share = [&](int r) { return static_cast<std::size_t>(rows / size() + (r < rows % size() ? 1 : 0)); };
    std::size_t begin = 0;
    for (int r = 0; r < rank(); ++r) begin += share(r);
    ASSERT_EQ(out.values.size(), share(rank()));
    ASSERT_TRUE(are_equal(out.values, sums(everybody(), out.values.size(), begin))) << rows << " rows";
  }
}

TEST(Levels, Alltoall) {
  Sizes sizes(5);
  const auto n = static_cast<std::size_t>(size());
  const auto own = static_cast<std::size_t>(rank());
  for (int round = 0; round < kRounds; ++round) {
    std::vector<std::int32_t> all;
    for (std::size_t i = 0; i < n * n; ++i) {
      all.push_back(sizes.below(4) == 0 ? 0 : static_cast<std::int32_t>(sizes.next() / size()));
    }
    const auto block = [&](std::size_t from, std::size_t to) {
      return values(static_cast<int>(from * n + to), static_cast<std::size_t>(all[from * n + to]));
    };
    std::vector<float> input, expected;
    std::vector<std::int32_t> splits, received;
    for (std::size_t r = 0; r < n; ++r) {
      const auto out = block(own, r), in = block(r, own);
      input.insert(input.end(), out.begin(), out.end());
      expected.insert(expected.end(), in.begin(), in.end());
      splits.push_back(all[own * n + r]);
      received.push_back(all[r * n + own]);
    }
    const std::string name = "exchange" + std::to_string(round);
    const Shape shape{static_cast<std::int64_t>(input.size())};
    roda_op op = make_op(RODA_ALLTOALL, name, shape, input.data(), nullptr);
    op.splits = splits.data();
    op.num_splits = size();
    const auto out = run_owned<float>(op);
    ASSERT_EQ(out.outcome.code, RODA_OK) << out.outcome.message;
    ASSERT_TRUE(are_equal(out.values, expected)) << "round " << round;
    ASSERT_EQ(out.splits, received);
  }
}

// Every other rank: some hosts have all their ranks in it, some one, some none.
TEST(Levels, AProcessSetThatCutsAcrossHosts) {
  if (size() < 4) GTEST_SKIP() << "needs four ranks";
  std::vector<std::int32_t> members{0};
  for (int r = 1; r < size(); r += 2) members.push_back(r);
  const int set = roda_add_process_set(members.data(), static_cast<int>(members.size()));
  ASSERT_GT(set, 0);
  bool is_member = false;
  for (const std::int32_t member : members) is_member = is_member || member == rank();
  for (const std::size_t count : {5u, 3000u, 900000u}) {
    if (!is_member) continue;
    auto data = values(rank(), count);
    const std::string name = "some" + std::to_string(count);
    const Shape shape{static_cast<std::int64_t>(count)};
    roda_op op = make_op(RODA_ALLREDUCE, name, shape, data.data(), data.data());
    op.process_set = set;
    const Outcome outcome = run(op);
    ASSERT_EQ(outcome.code, RODA_OK) << outcome.message;
    ASSERT_TRUE(are_equal(data, sums(members, count)));
    data = values(rank(), count);
    const std::string other = name + "root";
    op = make_op(RODA_BROADCAST, other, shape, data.data(), data.data());
    op.process_set = set;
    op.root = members.back();
    ASSERT_EQ(run(op).code, RODA_OK);
    ASSERT_TRUE(are_equal(data, values(members.back(), count)));
  }
  EXPECT_EQ(roda_remove_process_set(set), set);
}

}  // namespace
}  // namespace roda::test

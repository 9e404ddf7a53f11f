// A long training: many steps of many kinds, after which a rank holds no more than soon after the beginning.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "tests/multi/engine/rank.h"

namespace roda::test {
namespace {

// A million is the command in docs/testing.md; the suite takes fewer.
int steps() {
  const char* text = std::getenv("RODA_TEST_SOAK_STEPS");
  return text == nullptr ? 20'000 : std::atoi(text);
}

// KiB of the process in memory, its own and what it shares.
long resident() {
  std::ifstream status("/proc/self/status");
  std::string line;
  while (std::getline(status, line)) {
    if (line.starts_with("VmRSS:")) return std::atol(line.c_str() + 6);
  }
  return -1;
}

std::ptrdiff_t descriptors() {
  const std::filesystem::directory_iterator all("/proc/self/fd");
  return std::distance(begin(all), end(all));
}

void reduce(const std::string& name, std::size_t count, int set = 0) {
  std::vector<float> values(count, 1);
  const std::vector<std::int64_t> shape{static_cast<std::int64_t>(count)};
  roda_op op = make_op(RODA_ALLREDUCE, name, shape, values.data(), values.data());
  op.process_set = set;
  const Outcome o = run(op);
  ASSERT_EQ(o.code, RODA_OK) << o.message;
  ASSERT_EQ(values.front(), static_cast<float>(size()));
  ASSERT_EQ(values.back(), static_cast<float>(size()));
}

void reduce_group(int step) {
  std::vector<std::string> names;
  for (int i = 0; i < 8; ++i) names.push_back("group." + std::to_string(i));
  std::vector<std::vector<float>> values(names.size(), std::vector<float>(100, static_cast<float>(step % 7)));
  const std::vector<std::int64_t> shape{100};
  std::vector<roda_op> ops;
  for (std::size_t i = 0; i < names.size(); ++i) {
    ops.push_back(make_op(RODA_ALLREDUCE, names[i], shape, values[i].data(), values[i].data()));
  }
  roda_handle handle = 0;
  Outcome o = submit(ops, &handle);
  if (o.code == RODA_OK) o = wait(handle);
  ASSERT_EQ(o.code, RODA_OK) << o.message;
  for (const auto& v : values) ASSERT_EQ(v.back(), static_cast<float>(step % 7 * size()));
}

void others(int step) {
  const std::vector<std::int64_t> shape{size(), 3};
  std::vector<float> in(static_cast<std::size_t>(size()) * 3, static_cast<float>(rank()));
  for (const int collective : {RODA_ALLGATHER, RODA_ALLTOALL, RODA_REDUCESCATTER}) {
    const auto result =
        run_owned<float>(make_op(collective, "owned." + std::to_string(collective), shape, in.data(), nullptr));
    ASSERT_EQ(result.outcome.code, RODA_OK) << result.outcome.message;
  }
  roda_op op = make_op(RODA_BROADCAST, "broadcast", shape, in.data(), in.data());
  op.root = step % size();
  const Outcome o = run(op);
  ASSERT_EQ(o.code, RODA_OK) << o.message;
  ASSERT_EQ(in.back(), static_cast<float>(op.root));
}

// What a user's program does now and then: a set of ranks for a while, and a tensor of a new name.
void rare(int step) {
  std::vector<int> all;
  for (int r = 0; r < size(); ++r) all.push_back(r);
  reduce("new." + std::to_string(step), 10);
  if (size() < 3) return;  // the same ranks in another order are no other set
  all.pop_back();
  const int set = roda_add_process_set(all.data(), size() - 1);
  ASSERT_GT(set, 0);
  ASSERT_EQ(roda_remove_process_set(set), set);
}

void step(int number) {
  reduce("of." + std::to_string(number % 50), static_cast<std::size_t>(1 + number % 4000));
  if (number % 10 == 0) reduce_group(number);
  if (number % 50 == 0) others(number);
  if (number % 1000 == 0) rare(number);
}

TEST(Soak, AMillionStepsLaterARankHoldsNoMore) {
  const int all = steps();
  const int warm = std::min(std::max(all / 10, 5'000), 100'000);
  long before = 0;
  std::ptrdiff_t open_before = 0;
  for (int i = 0; i < all; ++i) {
    if (i == warm) before = resident(), open_before = descriptors();
    step(i);
    if (HasFatalFailure()) return;
  }
  std::printf("rank %d: %d steps, %ld KiB after the first %d, %ld at the end\n", rank(), all, before, warm, resident());
  EXPECT_LT(resident() - before, 1024) << "KiB";
  EXPECT_LE(descriptors(), open_before);  // fewer: a connection that nobody needs had not been closed by then
}

}  // namespace
}  // namespace roda::test

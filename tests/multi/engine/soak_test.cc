// A long training: many steps of many kinds, or many process sets, after which a rank holds no more than soon after the
// beginning.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>
#include <vector>

#include "tests/multi/engine/rank.h"

namespace roda::test {
namespace {

// The commands in docs/testing.md say more; the suite takes fewer.
int number_of(const char* variable, int in_the_suite) {
  const char* text = std::getenv(variable);
  return text == nullptr ? in_the_suite : std::atoi(text);
}

// KiB of the process: "VmRSS:" in memory, its own and what it shares, "VmSize:" of address space.
long kibibytes(std::string_view field) {
  std::ifstream status("/proc/self/status");
  std::string line;
  while (std::getline(status, line)) {
    if (line.starts_with(field)) return std::atol(line.c_str() + field.size());
  }
  return -1;
}
long resident() { return kibibytes("VmRSS:"); }

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
  const int all = number_of("RODA_TEST_SOAK_STEPS", 20'000);
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

void barrier() {
  const Outcome o = run(make_op(RODA_BARRIER, "", {}, nullptr, nullptr));
  ASSERT_EQ(o.code, RODA_OK) << o.message;
}

// Sets that share ranks, one of them used by nobody, and one that is removed while its members have work under way.
void come_and_go(int number) {
  std::vector<std::vector<std::int32_t>> sets{{0, size() - 1}, {0, 1}};
  sets.push_back(number % 2 == 0 ? std::vector<std::int32_t>{1, size() - 1} : std::vector<std::int32_t>{1});
  std::vector<std::int32_t> ids;
  for (const auto& ranks : sets) ids.push_back(roda_add_process_set(ranks.data(), static_cast<int>(ranks.size())));
  std::vector<float> values(number % 10 == 0 ? 300'000 : 1000, 1);
  const std::vector<std::int64_t> shape{static_cast<std::int64_t>(values.size())};
  roda_handle handle = 0;
  for (std::size_t i = 0; i < 2; ++i) {
    ASSERT_GT(ids[i], 0);
    if (roda_process_set_included(ids[i]) != 1) continue;
    std::ranges::fill(values, 1.0f);
    roda_op op = make_op(RODA_ALLREDUCE, "of a set", shape, values.data(), values.data());
    op.process_set = ids[i];
    Outcome o = submit({op}, &handle);
    ASSERT_EQ(o.code, RODA_OK) << o.message;
    if (i == 1) break;
    o = wait(handle);
    ASSERT_EQ(o.code, RODA_OK) << o.message;
    ASSERT_EQ(values.back(), 2.0f);
    handle = 0;
  }
  for (const std::int32_t id : ids) ASSERT_EQ(roda_remove_process_set(id), id);
  if (handle == 0) return;
  const Outcome o = wait(handle);  // it was launched before the end of its set, or not
  ASSERT_TRUE(o.code == RODA_OK || o.message == "Process set has been removed") << o.message;
  ASSERT_EQ(values.back(), o.code == RODA_OK ? 2.0f : 1.0f);
}

TEST(Soak, ProcessSetsThatAreGoneHoldNothing) {
  if (size() < 3) GTEST_SKIP() << "the sets are parts of three ranks";
  const int all = number_of("RODA_TEST_SOAK_SETS", 300) / 3;
  long before = 0, space_before = 0;
  std::ptrdiff_t open_before = 0;
  for (int i = 0; i < all; ++i) {
    if (i == all / 5) {
      barrier();
      before = resident(), space_before = kibibytes("VmSize:"), open_before = descriptors();
    }
    come_and_go(i);
    if (HasFatalFailure()) return;
  }
  barrier();
  const long space = kibibytes("VmSize:");
  std::printf("rank %d: %d sets, %ld KiB and %td descriptors after a fifth of them, %ld and %td at the end\n", rank(),
              all * 3, before, open_before, resident(), descriptors());
  EXPECT_LE(descriptors(), open_before + 6);  // of what another rank has ended and this one closes next
  EXPECT_LT(space - space_before, 1 << 20) << "KiB of address space";
  EXPECT_LT(resident() - before, 16 << 10) << "KiB";  // buffers and arenas, however many sets
}

}  // namespace
}  // namespace roda::test

// Barriers, joins, and process sets that overlap.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "tests/multi/engine/collectives/values.h"

namespace roda::test {
namespace {

TEST(Barrier, InterleavesWithOtherCollectives) {
  for (int i = 0; i < 20; ++i) {
    std::vector<float> data = mine(64);
    const Shape shape{64};
    roda_handle handle = 0;
    ASSERT_EQ(submit({make_op(RODA_ALLREDUCE, "beside", shape, data.data(), data.data())}, &handle).code, RODA_OK);
    ASSERT_EQ(run(make_op(RODA_BARRIER, "", {}, nullptr, nullptr)).code, RODA_OK);
    ASSERT_EQ(wait(handle).code, RODA_OK);
    expect_sum(data);
  }
}

TEST(Join, LateRanksGetZerosFromTheEarlyOnes) {
  // Rank r has r + 1 batches; what is reduced in batch b is the sum over the ranks that still have one.
  for (int batch = 0; batch <= rank(); ++batch) {
    std::vector<float> data(100, 1.0f);
    const Shape shape{100};
    ASSERT_EQ(run(make_op(RODA_ALLREDUCE, "batch", shape, data.data(), data.data())).code, RODA_OK);
    for (const float x : data) ASSERT_EQ(x, static_cast<float>(size() - batch));
  }
  roda_handle handle = 0;
  ASSERT_EQ(submit({make_op(RODA_JOIN, "", {}, nullptr, nullptr)}, &handle).code, RODA_OK);
  roda_error error{};
  ASSERT_EQ(roda_wait(handle, &error), RODA_OK);
  roda_output output{};
  ASSERT_EQ(roda_get_output(handle, 0, &output, &error), RODA_OK);
  EXPECT_EQ(output.value, size() - 1);
  roda_release(handle);
}

TEST(ProcessSets, OverlappingSetsRunSideBySide) {
  if (size() < 2) GTEST_SKIP() << "needs two ranks";
  const std::vector<std::int32_t> low{0, 1};
  std::vector<std::int32_t> odd;
  for (int r = 1; r < size(); r += 2) odd.push_back(r);
  const int low_id = size() == 2 ? 0 : roda_add_process_set(low.data(), 2);
  ASSERT_GE(low_id, 0);
  const int odd_id = roda_add_process_set(odd.data(), static_cast<int>(odd.size()));
  ASSERT_GT(odd_id, 0);
  auto sum_in = [](int set, const std::vector<std::int32_t>& members, const std::string& name) {
    std::vector<float> data(5000, static_cast<float>(rank() + 1));
    const Shape shape{5000};
    roda_op op = make_op(RODA_ALLREDUCE, name, shape, data.data(), data.data());
    op.process_set = set;
    const Outcome o = run(op);
    if (std::find(members.begin(), members.end(), rank()) == members.end()) {
      EXPECT_EQ(o.code, RODA_ERR_INVALID);
      EXPECT_NE(o.message.find("is not a member of the provided process set"), std::string::npos) << o.message;
      return;
    }
    ASSERT_EQ(o.code, RODA_OK) << o.message;
    float expected = 0;
    for (const int r : members) expected += static_cast<float>(r + 1);
    for (const float x : data) ASSERT_EQ(x, expected);
  };
  for (int i = 0; i < 5; ++i) {
    const std::string name = "set" + std::to_string(i);
    sum_in(low_id, low, name);
    sum_in(odd_id, odd, name);
  }
  if (low_id != 0) {
    EXPECT_EQ(roda_remove_process_set(low_id), low_id);
  }
  EXPECT_EQ(roda_remove_process_set(odd_id), odd_id);
  EXPECT_EQ(roda_process_set_size(odd_id), -3);
}

}  // namespace
}  // namespace roda::test

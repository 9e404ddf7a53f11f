// Barriers, joins, and process sets that overlap.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <string>
#include <thread>
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

// A number that the ranks of the job see without the engine.
class SharedNumber {
 public:
  SharedNumber() : name_("/roda-sets-" + std::to_string(getppid())) {
    const int fd = shm_open(name_.c_str(), O_CREAT | O_RDWR, 0600);
    EXPECT_EQ(ftruncate(fd, sizeof(std::atomic<int>)), 0);
    void* const memory = mmap(nullptr, sizeof(std::atomic<int>), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    EXPECT_NE(memory, MAP_FAILED);
    number_ = static_cast<std::atomic<int>*>(memory);
    run(make_op(RODA_BARRIER, "", {}, nullptr, nullptr));  // the name was needed so far
    shm_unlink(name_.c_str());
  }
  ~SharedNumber() { munmap(number_, sizeof(std::atomic<int>)); }
  SharedNumber(const SharedNumber&) = delete;
  SharedNumber& operator=(const SharedNumber&) = delete;
  std::atomic<int>& operator*() { return *number_; }

 private:
  std::string name_;
  std::atomic<int>* number_ = nullptr;
};

// One rank is done with the removal of a set, and another one, told of it, adds the set before its own engine knows.
TEST(ProcessSets, ASetIsAddedAgainWhileAnotherThreadRemovesIt) {
  if (size() < 2) GTEST_SKIP() << "needs two ranks";
  const std::int32_t first = 0;
  SharedNumber removals;
  int id = roda_add_process_set(&first, 1);
  for (int i = 1; i <= 200; ++i) {
    ASSERT_GT(id, 0);
    int removed = 0;
    std::thread other([&] {
      removed = roda_remove_process_set(id);
      if (rank() == 0) *removals = i;
    });
    while (*removals < i) std::this_thread::yield();
    const int added = roda_add_process_set(&first, 1);
    other.join();
    ASSERT_EQ(removed, id);
    id = added;
  }
  EXPECT_EQ(roda_remove_process_set(id), id);
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

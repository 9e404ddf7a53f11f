#include "plugins/base/kept_queue.h"

#include <gtest/gtest.h>

#include <deque>
#include <utility>
#include <vector>

namespace roda {
namespace {

TEST(KeptQueue, IsAQueueWhateverItsSizeWas) {
  KeptQueue<int> queue;
  std::deque<int> expected;
  for (int i = 0; i < 1000; ++i) {
    queue.push_back(i);
    expected.push_back(i);
    if (i % 3 == 0 || i % 7 == 0) {
      ASSERT_EQ(queue.front(), expected.front());
      queue.pop_front();
      expected.pop_front();
    }
    ASSERT_EQ(queue.size(), expected.size());
    ASSERT_TRUE(queue.empty() || queue.back() == expected.back());
  }
  int last = -1;
  queue.take_if([&](int& value) {
    EXPECT_LT(std::exchange(last, value), value) << "in order";
    return value % 2 == 0;
  });
  std::erase_if(expected, [](int value) { return value % 2 == 0; });
  ASSERT_EQ(queue.size(), expected.size());
  for (std::size_t i = 0; i < expected.size(); ++i) EXPECT_EQ(queue[i], expected[i]);
  EXPECT_TRUE(queue.any_of([&](int value) { return value == expected.back(); }));
  queue.clear();
  EXPECT_TRUE(queue.empty());
}

TEST(KeptQueue, APlaceIsFilledAgainWithTheMemoryThatItHas) {
  KeptQueue<std::vector<int>> queue;
  queue.add().assign(100, 1);
  const int* const memory = queue.front().data();
  queue.front().clear();
  queue.pop_front();
  for (int i = 0; i < 7; ++i) queue.add(), queue.pop_front();
  EXPECT_EQ(queue.add().data(), memory) << "the ring has come round";
}

}  // namespace
}  // namespace roda

#include "core/wire/rank_ranges.h"

#include <gtest/gtest.h>

#include <random>
#include <set>

namespace roda::wire {
namespace {

std::vector<RankRange> list(const RankRanges& ranges) { return {ranges.ranges().begin(), ranges.ranges().end()}; }

TEST(RankRanges, NeighboursMelt) {
  RankRanges ranges;
  ranges.add(4, 5);
  ranges.add(0, 1);
  EXPECT_EQ(list(ranges), (std::vector<RankRange>{{0, 1}, {4, 5}}));
  ranges.add(2, 3);
  EXPECT_EQ(list(ranges), (std::vector<RankRange>{{0, 5}}));
  EXPECT_EQ(ranges.count(), 6);
}

TEST(RankRanges, AgreeWithASetOfNumbers) {
  std::mt19937 random(5);
  for (int round = 0; round < 200; ++round) {
    RankRanges ranges;
    std::set<int> numbers;
    for (int i = 0; i < 12; ++i) {
      const int first = static_cast<int>(random() % 40), last = first + static_cast<int>(random() % 4);
      ranges.add(first, last);
      for (int n = first; n <= last; ++n) numbers.insert(n);
      ASSERT_EQ(ranges.count(), static_cast<int>(numbers.size()));
      for (int n = 0; n < 45; ++n) ASSERT_EQ(ranges.contains(n), numbers.count(n) == 1) << n;
      for (std::size_t r = 1; r < ranges.ranges().size(); ++r) {
        ASSERT_GT(ranges.ranges()[r].first, ranges.ranges()[r - 1].last + 1);
      }
    }
  }
}

// Few or many at once among few or many, touching ones too: as each by itself.
TEST(RankRanges, ManyAtOnceAreAddedAsEachByItself) {
  std::mt19937 random(6);
  for (int round = 0; round < 300; ++round) {
    RankRanges at_once, one_by_one;
    for (int part = 0; part < 3; ++part) {
      std::vector<RankRange> more;
      const int gap = 1 + static_cast<int>(random() % 8);
      for (int first = static_cast<int>(random() % 8); first < 120 && random() % 25 != 0;) {
        const int last = first + static_cast<int>(random() % 3);
        more.push_back({first, last});
        first = last + 1 + static_cast<int>(random() % static_cast<unsigned>(gap));
      }
      at_once.add(more);
      for (const RankRange& r : more) {
        for (int n = r.last; n >= r.first; --n) one_by_one.add(n, n);
      }
      ASSERT_EQ(list(at_once), list(one_by_one)) << round;
      ASSERT_EQ(at_once, one_by_one) << round;
    }
  }
}

}  // namespace
}  // namespace roda::wire

#include "transports/shm/segment.h"

#include <gtest/gtest.h>

#include <map>
#include <random>

namespace roda::shm {
namespace {

constexpr std::size_t kMiB = std::size_t{1} << 20;

TEST(Heap, RefusesMoreThanItHas) {
  Heap heap(kMiB, kMiB);
  EXPECT_EQ(heap.take(kMiB + 1), Heap::kNone);
  EXPECT_EQ(heap.take(kMiB), kMiB);
  EXPECT_EQ(heap.take(1), Heap::kNone);
  EXPECT_EQ(Heap().take(1), Heap::kNone);
}

TEST(Heap, LargeRangesAreAlignedToHugePages) {
  Heap heap(0, 64 * kMiB);
  EXPECT_EQ(heap.take(1), 0u);
  EXPECT_EQ(heap.take(3 * kMiB) % (2 * kMiB), 0u);
}

TEST(Heap, WhatIsGivenBackJoinsItsNeighbours) {
  Heap heap(0, 8 * kMiB);
  std::size_t a = heap.take(kMiB), b = heap.take(kMiB), c = heap.take(6 * kMiB);
  EXPECT_NE(c, Heap::kNone);
  heap.give_back(a, kMiB);
  heap.give_back(c, 6 * kMiB);
  heap.give_back(b, kMiB);
  EXPECT_EQ(heap.take(8 * kMiB), 0u);
}

TEST(Heap, RandomUseNeverOverlapsAndNeverLeaks) {
  std::mt19937 random(7);
  const std::size_t kBegin = 4 * kMiB, kBytes = 64 * kMiB;
  Heap heap(kBegin, kBytes);
  std::map<std::size_t, std::size_t> taken;
  for (int i = 0; i < 20000; ++i) {
    if (random() % 2 == 0) {
      std::size_t bytes = 1 + random() % (4 * kMiB);
      std::size_t at = heap.take(bytes);
      if (at == Heap::kNone) continue;
      ASSERT_GE(at, kBegin);
      ASSERT_LE(at + bytes, kBegin + kBytes);
      auto next = taken.lower_bound(at);
      if (next != taken.end()) {
        ASSERT_LE(at + bytes, next->first);
      }
      if (next != taken.begin()) {
        --next;
        ASSERT_LE(next->first + next->second, at);
      }
      taken[at] = bytes;
    } else if (!taken.empty()) {
      auto victim = std::next(taken.begin(), static_cast<std::ptrdiff_t>(random() % taken.size()));
      heap.give_back(victim->first, victim->second);
      taken.erase(victim);
    }
  }
  for (auto& [at, bytes] : taken) heap.give_back(at, bytes);
  EXPECT_EQ(heap.take(kBytes), kBegin);
}

}  // namespace
}  // namespace roda::shm

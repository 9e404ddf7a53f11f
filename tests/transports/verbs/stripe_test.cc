#include "transports/verbs/link.h"

#include <gtest/gtest.h>

namespace roda::verbs {
namespace {

TEST(Stripe, PartsAreTheWholeRangeInOrder) {
  for (const std::size_t bytes : {1u, 63u, 64u, 65u, 4096u, 65537u, 1048579u}) {
    for (std::size_t rails = 1; rails <= 4; ++rails) {
      const std::size_t count = part_count(bytes, rails, 256);
      std::size_t at = 0;
      for (std::size_t i = 0; i < count; ++i) {
        const Part part = part_of(bytes, count, i);
        EXPECT_EQ(part.offset, at);
        EXPECT_GT(part.bytes, 0u) << bytes << " bytes in " << count;
        EXPECT_EQ(part.offset % 64, 0u);
        at += part.bytes;
      }
      EXPECT_EQ(at, bytes);
    }
  }
}

TEST(Stripe, NoPartIsShorterThanItIsWorth) {
  EXPECT_EQ(part_count(0, 4, 1000), 1u);
  EXPECT_EQ(part_count(1999, 4, 1000), 1u);
  EXPECT_EQ(part_count(2000, 4, 1000), 2u);
  EXPECT_EQ(part_count(3999, 4, 1000), 3u);
  EXPECT_EQ(part_count(1u << 30, 4, 1000), 4u);
  EXPECT_EQ(part_count(1u << 30, 1, 1000), 1u);
}

}  // namespace
}  // namespace roda::verbs

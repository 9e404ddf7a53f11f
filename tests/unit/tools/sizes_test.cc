#include "tools/common/sizes.h"

#include <gtest/gtest.h>

namespace roda::tools {
namespace {

TEST(Sizes, UnitsArePowersOf1024) {
  EXPECT_EQ(parse_size("0"), 0u);
  EXPECT_EQ(parse_size("4096"), 4096u);
  EXPECT_EQ(parse_size("4k"), 4096u);
  EXPECT_EQ(parse_size("64MiB"), 64u << 20);
  EXPECT_EQ(parse_size("64 MB"), 64u << 20);
  EXPECT_EQ(parse_size("1.5G"), std::size_t{3} << 29);
  EXPECT_EQ(parse_size("12 B"), 12u);
}

TEST(Sizes, WhatIsNoSizeIsRefused) {
  for (const char* text : {"", "x", "-1", "4X", "4KK", "inf", "nan", "0.5", "1e30", "4 Ki B x"}) {
    EXPECT_FALSE(parse_size(text)) << text;
  }
  EXPECT_EQ(no_size("4X"), "no size: 4X (bytes, with K, M, G or T after them as in 64K and 1.5MiB)");
}

TEST(Sizes, FormatsWithTheLargestExactUnit) {
  EXPECT_EQ(format_size(0), "0 B");
  EXPECT_EQ(format_size(1023), "1023 B");
  EXPECT_EQ(format_size(4096), "4 KiB");
  EXPECT_EQ(format_size((64u << 20) + 1024), "65537 KiB");
  EXPECT_EQ(format_size(std::size_t{1} << 40), "1 TiB");
  EXPECT_EQ(parse_size(format_size(48u << 20)), 48u << 20);
}

}  // namespace
}  // namespace roda::tools

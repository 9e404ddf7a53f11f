// Two different messages never have one tag on the wire.
#include "transports/ucx/wire.h"

#include <gtest/gtest.h>

#include <map>
#include <string>
#include <utility>
#include <vector>

namespace roda::ucx {
namespace {

constexpr std::uint64_t kGenerations[] = {0, 1, 127, 255, 256, 0x1234567};
constexpr int kSizes[] = {1, 2, 3, 4, 5, 7, 8, 9, 63, 64, 65, 128, 1000, 1024, 65536};

// What the engine puts into its tags: generation, launch, lane, slice.
std::uint64_t engine_tag(std::uint64_t generation, std::uint64_t launch, std::uint64_t lane, std::uint64_t slice) {
  return (generation & 0xff) << 56 | (launch & 0xffffff) << 32 | lane << 20 | slice;
}

std::vector<std::uint64_t> tags_of(std::uint64_t generation) {
  std::vector<std::uint64_t> tags;
  for (std::uint64_t i = 0; i < 40; ++i) {
    tags.push_back(i);
    tags.push_back(0xfedcba9800000000 + i);
    tags.push_back(~i);
    tags.push_back(std::uint64_t{1} << (i + 24));
    tags.push_back(engine_tag(generation, i * 400001, i, i));
  }
  return tags;
}

TEST(TagLayout, DifferentMessagesHaveDifferentTagsOnTheWire) {
  for (const int size : kSizes) {
    for (const std::uint64_t generation : kGenerations) {
      const TagLayout layout(size, generation);
      std::map<std::uint64_t, std::string> seen;
      const auto add = [&](std::uint64_t wire, const std::string& what) {
        const auto [at, is_new] = seen.emplace(wire, what);
        EXPECT_TRUE(is_new || at->second == what) << what << " and " << at->second << ", size " << size;
      };
      for (const int sender : {0, 1 % size, size / 2, size - 1}) {
        const std::string from = "from " + std::to_string(sender) + ": ";
        for (const std::uint64_t tag : tags_of(generation)) {
          if (layout.fits(tag)) add(layout.plain(sender, tag), from + "tag " + std::to_string(tag));
        }
        for (std::uint64_t i = 0; i < 40; ++i) add(layout.numbered(sender, i), from + "number " + std::to_string(i));
      }
    }
  }
}

TEST(TagLayout, TagsOfTheEngineTravelAsTheyAre) {
  for (const int size : {2, 4, 16, 128}) {
    for (const std::uint64_t generation : kGenerations) {
      EXPECT_TRUE(TagLayout(size, generation).fits(engine_tag(generation, 0xffffff, 0xff, 0xfffff))) << size;
    }
  }
  // In larger groups as long as the count of launches needs no more bits than are left.
  EXPECT_TRUE(TagLayout(1024, 3).fits(engine_tag(3, 0x1fffff, 0xff, 0xfffff)));
  EXPECT_FALSE(TagLayout(1024, 3).fits(engine_tag(3, 0x200000, 0, 0)));
  EXPECT_FALSE(TagLayout(2, 3).fits(engine_tag(3 ^ 0x40, 0, 0, 0)));
}

TEST(TagLayout, AGroupOfOneHasAllBits) {
  const TagLayout layout(1, 0);
  EXPECT_TRUE(layout.fits(~std::uint64_t{0} >> 1));
  EXPECT_EQ(layout.plain(0, 7), 7u);
}

}  // namespace
}  // namespace roda::ucx

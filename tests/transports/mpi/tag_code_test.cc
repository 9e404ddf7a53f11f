#include "transports/mpi/tag_code.h"

#include <gtest/gtest.h>

#include <random>

namespace roda::mpi {
namespace {

constexpr int kFirst = 3;
constexpr int kLargest[] = {32767, (1 << 28) - 1, 0x7fffffff};  // what MPI promises; MPICH's; Open MPI's

TEST(MpiTagCodeTest, GivesEveryTagBack) {
  std::mt19937_64 random(1);
  for (const int largest : kLargest) {
    const TagCode code(kFirst, largest);
    for (int i = 0; i < 10'000; ++i) {
      const std::uint64_t tag = random() >> (i % 64);
      const int mpi_tag = code.encode(tag);
      ASSERT_GE(mpi_tag, kFirst);
      ASSERT_LE(mpi_tag, largest);
      ASSERT_EQ(code.number_in(mpi_tag), TagCode::number_of(code.prefix_of(tag)));
      ASSERT_EQ(code.decode(mpi_tag, code.prefix_of(tag)), tag);
    }
  }
}

TEST(MpiTagCodeTest, TheExtremesFit) {
  for (const int largest : kLargest) {
    const TagCode code(kFirst, largest);
    for (const std::uint64_t tag : {std::uint64_t{0}, ~std::uint64_t{0}}) {
      EXPECT_LE(code.encode(tag), largest);
      EXPECT_EQ(code.decode(code.encode(tag), code.prefix_of(tag)), tag);
    }
  }
}

TEST(MpiTagCodeTest, MessagesOfOneLaneShareAPrefix) {
  const TagCode code(kFirst, 0x7fffffff);
  const std::uint64_t first = 0x1234'5678'9a00'0000;
  EXPECT_EQ(code.prefix_of(first), code.prefix_of(first + 0xf'ffff));
  EXPECT_NE(code.prefix_of(first), code.prefix_of(first + 0x10'0000));
}

TEST(MpiTagCodeTest, NeighbouringPrefixesHaveNumbersOfTheirOwn) {
  for (std::uint64_t prefix = 0; prefix < 1000; ++prefix) {
    for (std::uint64_t next = 1; next < 16; ++next) {
      EXPECT_NE(TagCode::number_of(prefix), TagCode::number_of(prefix + next)) << prefix << " and " << prefix + next;
    }
  }
}

TEST(MpiAnnouncedTest, OnlyWhatChangesIsNew) {
  Announced announced;
  EXPECT_EQ(announced.find(TagCode::number_of(7)), nullptr);
  EXPECT_TRUE(announced.set(7));
  EXPECT_FALSE(announced.set(7));
  std::uint64_t rival = 8;
  while (TagCode::number_of(rival) != TagCode::number_of(7)) ++rival;
  EXPECT_TRUE(announced.set(rival));
  ASSERT_NE(announced.find(TagCode::number_of(7)), nullptr);
  EXPECT_EQ(*announced.find(TagCode::number_of(7)), rival);
  EXPECT_TRUE(announced.set(7));
}

TEST(MpiAnnouncedTest, ANumberThatWasNotAnnouncedIsNotFound) {
  Announced announced;
  announced.set(0);
  for (std::uint32_t number = 0; number < 1000; ++number) {
    EXPECT_EQ(announced.find(number) != nullptr, number == TagCode::number_of(0)) << number;
  }
}

}  // namespace
}  // namespace roda::mpi

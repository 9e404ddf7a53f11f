#include "core/engine/shape.h"

#include <gtest/gtest.h>

#include <vector>

namespace roda::engine {
namespace {

using Members = std::vector<int>;

TEST(Shape, OneHostIsOneRow) {
  const Shape shape({7, 7, 7}, 1);
  EXPECT_TRUE(shape.same_host());
  EXPECT_EQ(shape.columns(), 3);
  EXPECT_EQ(shape.members(Scope::kRow), (Members{0, 1, 2}));
  EXPECT_EQ(shape.members(Scope::kAll), (Members{0, 1, 2}));
  EXPECT_EQ(shape.members(Scope::kColumn), (Members{1}));
}

TEST(Shape, RanksOfHostsMayAlternate) {
  const Shape shape({4, 9, 4, 9}, 3);
  EXPECT_EQ(shape.rows(), 2);
  EXPECT_EQ(shape.row(), 1);
  EXPECT_EQ(shape.index(), 1);
  EXPECT_EQ(shape.members(Scope::kRow), (Members{1, 3}));
  EXPECT_EQ(shape.members(Scope::kColumn), (Members{2, 3}));
  EXPECT_EQ(shape.suffix(Scope::kRow), "/row1");
  EXPECT_EQ(shape.suffix(Scope::kColumn), "/column1");
}

TEST(Shape, ColumnsReachEveryHost) {
  const Shape shape({0, 0, 0, 1, 2, 2}, 4);
  EXPECT_EQ(shape.rows(), 3);
  EXPECT_EQ(shape.columns(), 1);
  EXPECT_EQ(shape.longest(), 3);
  EXPECT_EQ(shape.row_size(), 2);
  EXPECT_EQ(shape.members(Scope::kColumn), (Members{0, 3, 4}));
}

TEST(Shape, WhoIsNoMemberStillKnowsTheShape) {
  const Shape shape({0, 1}, -1);
  EXPECT_EQ(shape.rows(), 2);
  EXPECT_EQ(shape.size(), 2);
}

}  // namespace
}  // namespace roda::engine

#include "tools/perf/model.h"

#include <gtest/gtest.h>

#include <numeric>

namespace roda::perf {
namespace {

TEST(Model, ResNet50) {
  const auto sizes = gradient_sizes("resnet50");
  EXPECT_EQ(sizes.size(), 161u);
  EXPECT_EQ(std::accumulate(sizes.begin(), sizes.end(), std::size_t{0}), 25557032u);
  EXPECT_EQ(sizes.front(), 1000u);  // the last layer's gradient comes first
}

TEST(Model, Gpt2) {
  const auto sizes = gradient_sizes("gpt2");
  EXPECT_EQ(sizes.size(), 148u);
  EXPECT_EQ(std::accumulate(sizes.begin(), sizes.end(), std::size_t{0}), 124439808u);
}

TEST(Model, UnknownIsEmpty) { EXPECT_TRUE(gradient_sizes("perceptron").empty()); }

}  // namespace
}  // namespace roda::perf

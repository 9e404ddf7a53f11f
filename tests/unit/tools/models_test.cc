#include "tools/common/models.h"

#include <gtest/gtest.h>

#include <numeric>

namespace roda::tools {
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

TEST(Model, Others) {
  const auto parameters = [](const char* model) {
    const auto sizes = gradient_sizes(model);
    return std::accumulate(sizes.begin(), sizes.end(), std::size_t{0});
  };
  EXPECT_EQ(parameters("vgg16"), 138357544u);
  EXPECT_EQ(parameters("llama-7b"), 6738415616u);
}

TEST(Model, UnknownIsEmpty) { EXPECT_TRUE(gradient_sizes("perceptron").empty()); }

}  // namespace
}  // namespace roda::tools

#include "tools/common/models.h"

#include <algorithm>

namespace roda::tools {

namespace {

using Sizes = std::vector<std::size_t>;

void add_convolution(Sizes* sizes, std::size_t in, std::size_t out, std::size_t kernel) {
  sizes->push_back(in * out * kernel * kernel);
  sizes->insert(sizes->end(), 2, out);  // the batch norm behind it: scale and shift
}

// He et al., "Deep Residual Learning for Image Recognition", table 1.
Sizes resnet50() {
  constexpr struct {
    std::size_t width, blocks;
  } kStages[] = {{64, 3}, {128, 4}, {256, 6}, {512, 3}};
  Sizes sizes;
  add_convolution(&sizes, 3, 64, 7);
  std::size_t channels = 64;
  for (const auto& stage : kStages) {
    const std::size_t wide = 4 * stage.width;
    for (std::size_t block = 0; block < stage.blocks; ++block, channels = wide) {
      add_convolution(&sizes, channels, stage.width, 1);
      add_convolution(&sizes, stage.width, stage.width, 3);
      add_convolution(&sizes, stage.width, wide, 1);
      if (block == 0) add_convolution(&sizes, channels, wide, 1);  // the shortcut
    }
  }
  sizes.insert(sizes.end(), {channels * 1000, 1000});
  return sizes;
}

constexpr std::size_t kWidth = 768;

// Radford et al., "Language Models are Unsupervised Multitask Learners": 12 layers.
Sizes gpt2() {
  const auto add_linear = [](Sizes* sizes, std::size_t out, std::size_t in) {
    sizes->insert(sizes->end(), {out * in, out});
  };
  const auto add_norm = [](Sizes* sizes) { sizes->insert(sizes->end(), 2, kWidth); };
  Sizes sizes = {50257 * kWidth, 1024 * kWidth};
  for (int layer = 0; layer < 12; ++layer) {
    add_norm(&sizes);
    add_linear(&sizes, 3 * kWidth, kWidth);
    add_linear(&sizes, kWidth, kWidth);
    add_norm(&sizes);
    add_linear(&sizes, 4 * kWidth, kWidth);
    add_linear(&sizes, kWidth, 4 * kWidth);
  }
  add_norm(&sizes);
  return sizes;
}

// Simonyan and Zisserman, "Very Deep Convolutional Networks for Large-Scale Image Recognition": configuration D.
Sizes vgg16() {
  Sizes sizes;
  std::size_t channels = 3;
  for (const std::size_t width : {64, 64, 128, 128, 256, 256, 256, 512, 512, 512, 512, 512, 512}) {
    sizes.insert(sizes.end(), {channels * width * 9, width});
    channels = width;
  }
  for (const auto& [in, out] : {std::pair{512 * 49, 4096}, {4096, 4096}, {4096, 1000}}) {
    sizes.insert(sizes.end(), {static_cast<std::size_t>(in) * static_cast<std::size_t>(out), std::size_t(out)});
  }
  return sizes;
}

// Touvron et al., "LLaMA: Open and Efficient Foundation Language Models": 32 layers.
Sizes llama_7b() {
  constexpr std::size_t kEmbedding = 4096, kInner = 11008, kVocabulary = 32000;
  Sizes sizes = {kVocabulary * kEmbedding};
  for (int layer = 0; layer < 32; ++layer) {
    sizes.insert(sizes.end(), 4, kEmbedding * kEmbedding);  // queries, keys, values, output
    sizes.insert(sizes.end(), 3, kEmbedding * kInner);
    sizes.insert(sizes.end(), 2, kEmbedding);  // norms
  }
  sizes.insert(sizes.end(), {kEmbedding, kEmbedding * kVocabulary});
  return sizes;
}

}  // namespace

std::vector<std::size_t> gradient_sizes(const std::string& model) {
  Sizes sizes = model == "resnet50"   ? resnet50()
                : model == "vgg16"    ? vgg16()
                : model == "gpt2"     ? gpt2()
                : model == "llama-7b" ? llama_7b()
                                      : Sizes{};
  std::reverse(sizes.begin(), sizes.end());
  return sizes;
}

}  // namespace roda::tools

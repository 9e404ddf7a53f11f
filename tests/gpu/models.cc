#include "tests/gpu/models.h"

namespace roda::gpu_test {

std::vector<std::size_t> resnet50() {
  std::vector<std::size_t> sizes;
  // A convolution, and the weight and bias of the normalisation behind it.
  const auto convolution = [&sizes](std::size_t in, std::size_t out, std::size_t side) {
    for (const std::size_t size : {in * out * side * side, out, out}) sizes.push_back(size);
  };
  convolution(3, 64, 7);
  std::size_t in = 64;
  const std::size_t blocks[] = {3, 4, 6, 3};
  for (std::size_t stage = 0; stage < 4; ++stage) {
    const std::size_t width = std::size_t{64} << stage;
    for (std::size_t block = 0; block < blocks[stage]; ++block) {
      convolution(in, width, 1);
      convolution(width, width, 3);
      convolution(width, width * 4, 1);
      if (block == 0) convolution(in, width * 4, 1);
      in = width * 4;
    }
  }
  for (const std::size_t size : {in * 1000, std::size_t{1000}}) sizes.push_back(size);
  return sizes;
}

std::vector<std::size_t> gpt2() {
  constexpr std::size_t kWidth = 768;
  std::vector<std::size_t> sizes = {50257 * kWidth, 1024 * kWidth};
  for (int layer = 0; layer < 12; ++layer) {
    sizes.insert(sizes.end(), {kWidth, kWidth, kWidth * 3 * kWidth, 3 * kWidth, kWidth * kWidth, kWidth, kWidth, kWidth,
                               kWidth * 4 * kWidth, 4 * kWidth, 4 * kWidth * kWidth, kWidth});
  }
  sizes.insert(sizes.end(), {kWidth, kWidth});
  return sizes;
}

}  // namespace roda::gpu_test

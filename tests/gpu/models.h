// The gradients of models that people train: how many elements each tensor has, in the order of the parameters.
#pragma once

#include <cstddef>
#include <vector>

namespace roda::gpu_test {

std::vector<std::size_t> resnet50();
std::vector<std::size_t> gpt2();  // the smallest, of 124 million parameters

}  // namespace roda::gpu_test

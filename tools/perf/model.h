// Gradients of two well-known models: element counts in the order in which the backward pass makes them.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace roda::perf {

// "resnet50" (161 tensors, 25.6 M parameters) or "gpt2" (148 tensors, 124 M); empty for any other name.
std::vector<std::size_t> gradient_sizes(const std::string& model);

}  // namespace roda::perf

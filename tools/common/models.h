// How large the gradients of well-known models are.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace roda::tools {

// Elements of every parameter of "resnet50", "vgg16", "gpt2" (124 million) or "llama-7b", in the order in which a
// backward pass has their gradients; empty for another name.
std::vector<std::size_t> gradient_sizes(const std::string& model);

}  // namespace roda::tools

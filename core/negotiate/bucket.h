// Which ready tensors travel together.
#pragma once

#include <cstddef>
#include <deque>
#include <vector>

#include "core/negotiate/request.h"

namespace roda::negotiate {

// Takes the first ready tensor and all later ones that may travel with it, in order; the others keep their order.
// Allreduces fuse when dtype, op, factors and kind of memory are equal, each has at most `limit` bytes (larger ones are
// reduced where they lie, which costs less than copying them), and all together at most `threshold` bytes.
std::vector<AgreedPtr> take_bucket(std::deque<AgreedPtr>* ready, std::size_t threshold, std::size_t limit);

}  // namespace roda::negotiate

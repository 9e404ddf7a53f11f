// Which ready tensors travel together.
#pragma once

#include <cstddef>
#include <deque>
#include <span>
#include <vector>

#include "core/negotiate/request.h"

namespace roda::negotiate {

struct BucketRules {
  std::size_t threshold = 128u << 20;     // bytes of one bucket; 0: no fusion
  std::size_t limit = 256u << 10;         // an allreduce of more bytes travels alone: no bucket is worth copying it
  std::size_t copied_limit = 256u << 10;  // the same for what is always copied into a buffer and out of it
  bool adasum_apart = false;              // where a tensor is cut shows in its products' last bits (RODA_DETERMINISTIC)
  bool groups_apart = false;              // a group fuses only with itself (HOROVOD_DISABLE_GROUP_FUSION)
};

// Takes the first ready tensor and all later ones that may travel with it, in order; the others keep their order.
// Tensors of one collective fuse when dtype, op, factors, root and kind of memory are equal, each has at most the
// limit's bytes (larger ones are worked on where they lie, which costs less than copying them), and all together at
// most the threshold's. Alltoalls, barriers and joins never do.
std::vector<AgreedPtr> take_bucket(std::deque<AgreedPtr>* ready, const BucketRules& rules);

// What the selection table calls the size of a launch over so many members: see select::Query::bytes.
std::size_t table_bytes(std::span<const AgreedPtr> tensors, std::size_t members);

}  // namespace roda::negotiate

// What the lanes of one run share: the program, the group, and where its memory lies.
#pragma once

#include <roda/abi/types.h>

#include <cstddef>
#include <cstdint>

#include "core/execute/device/device_queue.h"
#include "core/execute/group.h"
#include "core/execute/options.h"
#include "core/execute/schedule/layout.h"
#include "core/execute/schedule/program.h"

namespace roda::execute {

// Which in-flight operation a message belongs to. Nothing in flight collides: the fields wrap far beyond what can be
// outstanding.
struct Tag {
  std::uint64_t generation = 0;
  std::uint64_t launch = 0;
  std::uint32_t stage = 0;
  std::uint32_t lane = 0;
  std::uint64_t slice = 0;

  static constexpr std::uint32_t kMaxStages = 1u << 4;
  static constexpr std::uint32_t kMaxLanes = 1u << 8;

  std::uint64_t packed() const {
    return (generation & 0xff) << 56 | (launch & 0xffffff) << 32 | std::uint64_t{stage & 0xf} << 28 |
           std::uint64_t{lane & 0xff} << 20 | (slice & 0xfffff);
  }
};

// Index 0: Input, 1: Output.
struct RunView {
  TransportGroup* group = nullptr;
  const Program* program = nullptr;
  const ExecuteOptions* options = nullptr;
  std::int32_t dtype = RODA_FLOAT32;
  std::int32_t op = RODA_SUM;
  std::size_t element = 4;
  Tag tag;

  SpaceMap map[2];
  char* user[2] = {};
  const roda_memory* user_memory[2] = {};
  bool staged = false;
  bool bucket = false;  // staged without exception: the user's memory is not in one piece
  char* block[2] = {};
  const roda_memory* block_memory = nullptr;
  // The data lie on a device: copies and reductions are put on this queue's stream. Null: host memory.
  const DeviceQueue* queue = nullptr;
  char* scratch = nullptr;
  const roda_memory* scratch_memory = nullptr;
  std::size_t scratch_stride = 0;
  // Of Adasum: where tensors begin in the vector, and the products, with whole lines for a chunk.
  const std::size_t* tensor_begins = nullptr;
  std::size_t tensors = 0;
  char* products = nullptr;

  std::uint32_t block_index = 0;
  std::uint64_t sequence = 0;  // of this use of the block

  static std::size_t which(schedule::Space space) { return space == schedule::Space::kOutput ? 1 : 0; }
  bool in_user(const Operand& operand) const { return !staged || (operand.in_user && !bucket); }

  std::size_t product_bytes() const { return 3 * sizeof(double) * tensors; }
  std::size_t bytes(const Operand& operand) const {
    if (operand.space == schedule::Space::kProducts) return product_bytes();
    return operand.count == 0 ? 0 : map[which(operand.extent)].bytes(operand.first, operand.count);
  }

  char* address(const Operand& operand) const {
    if (operand.count == 0) return nullptr;
    if (operand.space == schedule::Space::kProducts) {
      return products + static_cast<std::size_t>(operand.first) * align_up(product_bytes());
    }
    const SpaceMap& extent = map[which(operand.extent)];
    const auto first = static_cast<std::size_t>(operand.first);
    if (operand.space == schedule::Space::kScratch) {
      return scratch + static_cast<std::size_t>(operand.unit) * scratch_stride +
             (extent.prefix[first] - extent.prefix[static_cast<std::size_t>(operand.unit_first)]);
    }
    const std::size_t w = which(operand.space);
    return in_user(operand) ? user[w] + extent.user[first] : block[w] + extent.block[first];
  }

  // Where peers will look for what `op` makes in the user's memory, null when they won't.
  char* published(const Op& op) const {
    if (!op.publishes || !staged || bucket) return nullptr;
    return block[1] + map[1].block[static_cast<std::size_t>(op.dst.first)];
  }

  const roda_memory* memory(const Operand& operand) const {
    if (operand.space == schedule::Space::kScratch) return scratch_memory;
    if (operand.space == schedule::Space::kProducts) return nullptr;
    return in_user(operand) ? user_memory[which(operand.space)] : block_memory;
  }

  // Where the chunks begin in a peer's window; ranks lay their windows out alike.
  std::size_t window_offset(const Operand& operand) const {
    const SpaceMap& extent = map[which(operand.space)];
    const auto first = static_cast<std::size_t>(operand.first);
    return staged ? extent.block[first] : extent.user[first];
  }
  std::uint32_t window(const Operand& operand) const {
    return TransportGroup::window_index(block_index, static_cast<int>(which(operand.space)));
  }
};

}  // namespace roda::execute

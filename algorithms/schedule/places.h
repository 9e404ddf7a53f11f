// Where a program's operands lie on one rank: the arithmetic that the executor does with bytes, and the verifier with
// cells of one chunk, or a part of one, each.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "algorithms/index.h"
#include "algorithms/schedule/program.h"

namespace roda::schedule {

// The chunks of Input or Output in one slice of the data, in bytes.
struct SpaceMap {
  std::vector<std::size_t> prefix;  // [chunks + 1] bytes of this slice before the chunk; the chunks' lengths
  std::vector<std::size_t> user;    // [chunks] where the chunk's part lies in the user's memory
  std::vector<std::size_t> block;   // [chunks] where it lies in a staging block

  std::size_t bytes(std::int32_t first, std::int32_t count) const {
    return prefix[at(first + count)] - prefix[at(first)];
  }
};

// Index 0: Input, 1: Output.
struct Places {
  const Program* program = nullptr;
  bool staged = false;  // one-sided: what peers touch lies in the block
  bool bucket = false;  // staged without exception: the user's memory is not in one piece
  SpaceMap map[2];
  char* user[2] = {};
  char* block[2] = {};
  // Address that the contribution to Output's chunks would have if it lay at their offsets in the user's Output; not a
  // pointer, because for allgather it may lie before the input's beginning.
  std::uintptr_t contribution = 0;
  char* scratch_begin = nullptr;
  std::size_t scratch_stride = 0;  // from one copy to the next
  char* products = nullptr;
  std::size_t product_bytes = 0;
  std::size_t product_stride = 0;

  static std::size_t which(Space space) { return space == Space::kOutput ? 1 : 0; }
  const SpaceMap& chunks(const Operand& operand) const { return map[which(operand.data)]; }
  bool in_user(const Operand& operand) const { return !staged || (operand.in_user && !bucket); }
  // Whether the contribution lies in the output already.
  bool lies_in_output() const { return contribution == reinterpret_cast<std::uintptr_t>(user[1]); }

  std::size_t bytes(const Operand& operand) const {
    if (operand.space == Space::kProducts) return product_bytes;
    return operand.count == 0 ? 0 : chunks(operand).bytes(operand.first, operand.count);
  }

  char* address(const Operand& operand) const {
    if (operand.count == 0) return nullptr;
    if (operand.space == Space::kProducts) return products + at(operand.first) * product_stride;
    const SpaceMap& data = chunks(operand);
    if (operand.space == Space::kScratch) {
      const std::size_t begin = program->scratch_is_own ? 0 : data.prefix[at(operand.first)];
      return scratch_begin + at(operand.copy) * scratch_stride + begin;
    }
    const std::size_t w = which(operand.space);
    return in_user(operand) ? user[w] + data.user[at(operand.first)] : block[w] + data.block[at(operand.first)];
  }

  // Where peers will look for what `op` makes in the user's memory, null when they won't.
  char* published(const Op& op) const {
    return !op.publishes || bucket ? nullptr : block[1] + map[1].block[at(op.dst.first)];
  }

  // Where the chunks begin in a peer's window; ranks lay their blocks out alike.
  std::size_t window_offset(const Operand& operand) const { return map[which(operand.space)].block[at(operand.first)]; }

  // The copies around the lanes: of a contribution into the block or to its place in the output, and of results out of
  // the block.
  enum class Way : std::uint8_t { kIn, kCarry, kOut };
  const char* from(Way way, Space space, std::size_t chunk) const {
    const std::size_t w = which(space);
    if (way == Way::kOut) return block[1] + map[w].block[chunk];
    const std::uintptr_t given = w == 1 ? contribution : reinterpret_cast<std::uintptr_t>(user[0]);
    return reinterpret_cast<const char*>(given + map[w].user[chunk]);
  }
  char* to(Way way, Space space, std::size_t chunk) const {
    const std::size_t w = which(space);
    return way == Way::kIn ? block[w] + map[w].block[chunk] : user[1] + map[w].user[chunk];
  }
};

}  // namespace roda::schedule

// How (sender, 64-bit tag) becomes UCX's one 64-bit tag. Pure arithmetic, no state.
//
// A worker receives for one group only, so the wire tag holds no group:
//
//     sender (as few bits as the group needs) | numbered (1 bit) | value (all other bits)
//
// A tag is given relative to the group's home, the value whose top byte is the generation's low byte: the engine puts
// that there, so its tags become small. A tag that fits into `value` travels as it is: distinct tags stay distinct, and
// nothing needs checking. One that does not fit is announced to the receiver under a running number of the pair, and
// the message carries the number instead. Either way UCX matches on all 64 bits, and two different messages never meet.
#pragma once

#include <bit>
#include <cstdint>

namespace roda::ucx {

class TagLayout {
 public:
  TagLayout() = default;
  TagLayout(int size, std::uint64_t generation)
      : value_bits_(63 - std::bit_width(static_cast<unsigned>(size - 1))), home_((generation & 0xff) << 56) {}

  bool fits(std::uint64_t tag) const { return (tag ^ home_) >> value_bits_ == 0; }
  // fits(tag)
  std::uint64_t plain(int sender, std::uint64_t tag) const { return of(sender) | (tag ^ home_); }
  // Numbers wrap after 2^value_bits, far beyond what can be in flight.
  std::uint64_t numbered(int sender, std::uint64_t number) const {
    return of(sender) | std::uint64_t{1} << value_bits_ | (number & ((std::uint64_t{1} << value_bits_) - 1));
  }

 private:
  // A group of one has no peers and no bits for them.
  std::uint64_t of(int sender) const {
    return value_bits_ == 63 ? 0 : static_cast<std::uint64_t>(sender) << (value_bits_ + 1);
  }

  int value_bits_ = 63;
  std::uint64_t home_ = 0;
};

}  // namespace roda::ucx

// Roda's 64-bit tags on MPI's, which may have as few as 15 bits. Pure.
//
// The low bits of a tag travel in MPI's. The rest, its prefix, is announced under a small number, and MPI's tag names
// that number. The messages of one lane of an operation share a prefix, and all but the first need no announcement. A
// prefix has the one number that its bits give; of two prefixes with one number, the one announced last holds it. Both
// ends therefore depend on taking announcements and messages in the order of sending.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace roda::mpi {

class TagCode {
 public:
  static constexpr int kNumberBits = 6;

  // Uses MPI's tags from `first` to `largest`, which MPI promises to be at least 32,767.
  TagCode(int first, int largest)
      : first_(static_cast<std::uint32_t>(first)),
        low_bits_(std::min(
            20, static_cast<int>(std::bit_width(static_cast<std::uint32_t>(largest - first))) - 1 - kNumberBits)) {}

  std::uint64_t prefix_of(std::uint64_t tag) const { return tag >> low_bits_; }
  int encode(std::uint64_t tag) const {
    const std::uint64_t low = tag & ((std::uint64_t{1} << low_bits_) - 1);
    return static_cast<int>(first_ + (number_of(prefix_of(tag)) << low_bits_) + low);
  }
  // The reverse; `mpi_tag` is `first` or more, and `prefix` what was announced last under its number.
  std::uint64_t decode(int mpi_tag, std::uint64_t prefix) const {
    return prefix << low_bits_ | (offset(mpi_tag) & ((std::uint64_t{1} << low_bits_) - 1));
  }
  std::uint32_t number_in(int mpi_tag) const { return static_cast<std::uint32_t>(offset(mpi_tag) >> low_bits_); }

  // Neighbouring prefixes get different numbers, wherever they differ (Knuth's multiplicative hashing).
  static std::uint32_t number_of(std::uint64_t prefix) {
    return static_cast<std::uint32_t>(prefix * 0x9e3779b97f4a7c15 >> (64 - kNumberBits));
  }

 private:
  std::uint64_t offset(int mpi_tag) const { return static_cast<std::uint32_t>(mpi_tag) - first_; }

  std::uint32_t first_;
  int low_bits_;
};

// The prefixes announced from one rank to another, at either end.
class Announced {
 public:
  // False when it was the one announced last under its number already.
  bool set(std::uint64_t prefix) {
    if (prefixes_.empty()) prefixes_.assign(std::size_t{1} << TagCode::kNumberBits, kNone);
    std::uint64_t& held = prefixes_[TagCode::number_of(prefix)];
    if (held == prefix) return false;
    held = prefix;
    return true;
  }
  // Null when nothing was announced under it.
  const std::uint64_t* find(std::uint32_t number) const {
    return number < prefixes_.size() && prefixes_[number] != kNone ? &prefixes_[number] : nullptr;
  }

 private:
  static constexpr std::uint64_t kNone = ~std::uint64_t{0};  // a prefix has fewer bits

  std::vector<std::uint64_t> prefixes_;  // by number; empty until the first
};

}  // namespace roda::mpi

// What one rank asks for, and what all ranks agreed on.
#pragma once

#include <roda/abi/types.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "plugins/base/status.h"

namespace roda::negotiate {

// Of what a tensor is a member: the tensors that one call submitted together.
struct Group {
  std::uint64_t id = 0;  // of the names of all members (see group_id); 0: no group
  std::int32_t size = 0;
  friend bool operator==(const Group&, const Group&) = default;
};

// FNV-1a of the names in order, never 0: ranks that group the same tensors come to the same number.
template <typename Names>
std::uint64_t group_id(const Names& names) {
  std::uint64_t hash = 0xcbf29ce484222325u;
  const auto add = [&hash](unsigned char byte) { hash = (hash ^ byte) * 0x100000001b3u; };
  for (const auto& name : names) {
    for (const char c : name) add(static_cast<unsigned char>(c));
    add(0);
  }
  return hash == 0 ? 1 : hash;
}

constexpr std::size_t kMostNameBytes = 65'536;
constexpr int kMostDimensions = 16;

// What a tensor's members say alike, but for what is noted. Ranks and roots are world numbers.
struct Terms {
  std::int32_t set = 0;  // process set id
  std::int32_t collective = RODA_ALLREDUCE;
  std::int32_t dtype = RODA_FLOAT32;
  std::int32_t op = RODA_SUM;
  std::int32_t root = 0;
  double prescale = 1.0;
  double postscale = 1.0;
  std::string name;
  std::vector<std::int64_t> shape;  // dimension 0 differs for allgather and alltoall
  Group group;
  friend bool operator==(const Terms&, const Terms&) = default;
};

// One rank's wish for one tensor.
struct Request : Terms {
  std::int32_t rank = 0;
  std::int32_t device = -1;          // where the tensor lies: the number of this rank's GPU; -1: host memory
  std::vector<std::int32_t> splits;  // alltoall only: rows for each member

  // Elements of one row (the product of all dimensions but the first); 1 for a scalar.
  std::int64_t row_elements() const {
    std::int64_t n = 1;
    for (std::size_t i = 1; i < shape.size(); ++i) n *= shape[i];
    return n;
  }
  std::int64_t elements() const { return shape.empty() ? 1 : shape[0] * row_elements(); }
};

// What every member of the set agreed on for one tensor: the shape is the first member's, the group none unless all
// named the same one. Immutable once made; shared by the cache and the launches.
struct Agreed : Terms {
  std::vector<std::int32_t> devices;  // per member: its GPU, -1 where it joined; empty: host memory
  std::vector<std::int64_t> rows;     // per member: its dimension 0 (1 for a scalar)
  std::int64_t all_rows = 0;          // their sum
  std::int64_t row_elements = 1;
  std::vector<std::int32_t> splits;  // alltoall: members x members, row i = what member i sends to each
  std::int32_t cache_bit = -1;

  bool on_device() const { return !devices.empty(); }
  std::int64_t elements(std::size_t member) const { return rows[member] * row_elements; }
  std::size_t bytes(std::size_t member) const {
    return static_cast<std::size_t>(elements(member)) * roda_dtype_size(dtype);
  }
};
using AgreedPtr = std::shared_ptr<const Agreed>;

}  // namespace roda::negotiate

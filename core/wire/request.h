// What a rank says in the log: what it asks for, how buckets are to be formed, and who comes late.
#pragma once

#include <roda/abi/types.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "plugins/base/hash.h"

namespace roda::negotiate {

// Of what a tensor is a member: the tensors that one call submitted together.
struct Group {
  std::uint64_t id = 0;  // of the names of all members (see group_id); 0: no group
  std::int32_t size = 0;
  friend bool operator==(const Group&, const Group&) = default;
};

// Of the names in order, never 0: ranks that group the same tensors come to the same number.
std::uint64_t group_id(const auto& names) {
  Hash hash;
  for (const auto& name : names) {
    hash.add(std::string_view(name));
    hash.add(std::uint64_t{0});
  }
  return std::max<std::uint64_t>(hash.value(), 1);
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
  std::int32_t wire_format = RODA_WIRE_NONE;  // another one: an allreduce that can have it
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

// What autotuning may change while a job runs. It travels in the log, so that every rank changes it at the same place.
struct Tuning {
  std::uint64_t threshold = 0;    // bytes of one bucket; 0: no fusion
  std::uint32_t hold_us = 0;      // longest time that a ready tensor waits for others; 0: none waits
  std::uint32_t outstanding = 1;  // buckets launched and not completed, per process set
  std::string select;             // rules that come before the selection table's, as in HOROVOD_SELECT
  friend bool operator==(const Tuning&, const Tuning&) = default;
};

// The finding of a rank that waits: over a number of steps another rank came last in most of them. That rank tells it
// to all, with the cause.
struct Lateness {
  std::int32_t rank = -1;
  std::int32_t steps = 0;     // in which it did
  std::int32_t of_steps = 0;  // that were looked at
  std::int32_t share = 0;     // of the time, per mille, in which the others waited for it
  // Of the time, per mille, in which the main thread of the finder ran, waited for a core, was in the kernel, and
  // collected garbage.
  std::int32_t ran = 0;
  std::int32_t queued = 0;
  std::int32_t kernel = 0;
  std::int32_t collected = 0;
  // Per mille: of what the finder's worst link carries is lost, and of the time it is busy; `cause` has the words.
  std::int32_t link_lost = 0;
  std::int32_t link_busy = 0;
  std::int32_t is_told = 0;  // 1: by the late rank
  std::int32_t reserved = 0;
  std::int64_t nanoseconds = 0;   // that it took longer in the median of those steps
  std::int64_t before_first = 0;  // that it had its first tensor later, in the mean; -1: not known
  std::array<char, 128> cause{};  // words of the late rank, UTF-8, that end with 0
};

}  // namespace roda::negotiate

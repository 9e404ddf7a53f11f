// What one rank asks for, and what all ranks agreed on.
#pragma once

#include <roda/abi/types.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "plugins/base/hash.h"
#include "plugins/base/status.h"

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
  std::int32_t placement = -1;        // the number of `devices` among those that the set has seen; -1: host memory
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
  std::int32_t is_told = 0;  // 1: by the late rank
  std::int32_t reserved = 0;
  std::int64_t nanoseconds = 0;   // that it took longer in the median of those steps
  std::int64_t before_first = 0;  // that it had its first tensor later, in the mean; -1: not known
  std::array<char, 128> cause{};  // words of the late rank, UTF-8, that end with 0
};

// --- the checks that ranks' requests for one tensor must pass together, in the order and with the texts of the
// contract

// `requests` holds one entry per member that takes part (joined members are absent), in member order. `members` is the
// set's size; `joined` says whether some member has joined. Returns the error that every rank raises for this tensor:
// it begins with the contract's text and goes on with the ranks and their values. Ranks that agree on what cannot be
// done are told it is an invalid argument. Pure.
Status validate(const std::vector<const Request*>& requests, int members, bool joined);

// The group that all of them name; none where they differ.
Group common_group(const std::vector<const Request*>& requests);

// The agreement that valid requests stand for. `members` is the set's size; `position[i]` is the member index of
// requests[i]. Members without a request (joined) contribute zero rows, or the common shape's for an allreduce.
AgreedPtr agree(const std::vector<const Request*>& requests, const std::vector<int>& position, int members);

}  // namespace roda::negotiate

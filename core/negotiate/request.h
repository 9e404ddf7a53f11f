// What all ranks agreed on, and the checks before.
#pragma once

#include <roda/abi/types.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "core/wire/request.h"
#include "plugins/base/status.h"

namespace roda::negotiate {

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

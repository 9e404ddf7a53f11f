#include "core/negotiate/bucket.h"

#include <algorithm>

namespace roda::negotiate {
namespace {

// Of the buffer: an allgather's holds what all members give.
std::size_t bytes_of(const Agreed& t) {
  if (roda_collective_of(t.collective)->input != RODA_OWN_PART) return t.bytes(0);
  return static_cast<std::size_t>(t.all_rows * t.row_elements) * roda_dtype_size(t.dtype);
}

bool fuses(const Agreed& t, const BucketRules& rules) {
  if (roda_collective_is(t.collective, RODA_FUSES) == 0) return false;
  if (t.collective == RODA_ADASUM_ALLREDUCE && rules.adasum_apart) return false;
  const std::size_t bytes = bytes_of(t);
  return bytes <= (t.collective == RODA_ALLREDUCE ? rules.limit : rules.copied_limit) && bytes <= rules.threshold;
}

bool alike(const Agreed& a, const Agreed& b, const BucketRules& rules) {
  return a.collective == b.collective && a.dtype == b.dtype && a.op == b.op && a.root == b.root &&
         a.prescale == b.prescale && a.postscale == b.postscale && a.devices == b.devices &&
         (!rules.groups_apart || a.group == b.group);
}

}  // namespace

std::vector<AgreedPtr> take_bucket(std::deque<AgreedPtr>* ready, const BucketRules& rules) {
  std::vector<AgreedPtr> bucket{ready->front()};
  ready->pop_front();
  const Agreed& head = *bucket.front();
  if (!fuses(head, rules) || ready->empty()) return bucket;
  std::size_t bytes = bytes_of(head);
  std::deque<AgreedPtr> rest;
  for (AgreedPtr& t : *ready) {
    const bool joins = fuses(*t, rules) && alike(head, *t, rules) && bytes + bytes_of(*t) <= rules.threshold;
    if (joins) bytes += bytes_of(*t);
    if (joins) {
      bucket.push_back(std::move(t));
    } else {
      rest.push_back(std::move(t));
    }
  }
  ready->swap(rest);
  return bucket;
}

namespace {

// Of the rank that gets most.
std::size_t largest_output(const Agreed& t, std::size_t members) {
  std::size_t most = 0;
  for (std::size_t to = 0; to < members; ++to) {
    std::size_t rows = 0;
    for (std::size_t from = 0; from < members; ++from) rows += static_cast<std::size_t>(t.splits[from * members + to]);
    most = std::max(most, rows);
  }
  return most * static_cast<std::size_t>(t.row_elements) * roda_dtype_size(t.dtype);
}

}  // namespace

std::size_t table_bytes(std::span<const AgreedPtr> tensors, std::size_t members) {
  const Agreed& head = *tensors.front();
  if (head.collective == RODA_BARRIER) return 0;
  if (head.collective == RODA_ALLTOALL) return largest_output(head, members);
  std::size_t bytes = 0;
  for (const AgreedPtr& tensor : tensors) bytes += bytes_of(*tensor);
  return bytes;
}

}  // namespace roda::negotiate

#include "core/negotiate/bucket.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "plugins/base/hash.h"
#include "plugins/base/invariant.h"

namespace roda::negotiate {
namespace {

// The bytes that the tensor takes of a buffer: an allgather's holds what all members give.
std::size_t bytes_of(const Agreed& t) {
  if (roda_collective_of(t.collective)->input != RODA_OWN_PART) return t.bytes(0);
  return static_cast<std::size_t>(t.all_rows * t.row_elements) * roda_dtype_size(t.dtype);
}

bool fuses(const Agreed& t, const BucketRules& rules) {
  if (roda_collective_is(t.collective, RODA_FUSES) == 0) return false;
  if (t.collective == RODA_ADASUM_ALLREDUCE && rules.adasum_apart) return false;
  const std::size_t bytes = bytes_of(t);
  std::size_t limit = rules.copied_limit;
  if (t.collective == RODA_ALLREDUCE) limit = t.on_device() ? rules.complete : rules.limit;
  return bytes <= limit && bytes <= rules.threshold;
}

bool alike(const Agreed& a, const Agreed& b, const BucketRules& rules) {
  return a.collective == b.collective && a.dtype == b.dtype && a.op == b.op && a.root == b.root &&
         a.wire_format == b.wire_format && a.prescale == b.prescale && a.postscale == b.postscale &&
         a.placement == b.placement && (!rules.groups_apart || a.group == b.group);
}

// The bytes of the output on the rank that gets most.
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

void take_bucket(KeptQueue<AgreedPtr>* ready, const BucketRules& rules, std::vector<AgreedPtr>* bucket) {
  bucket->clear();
  bucket->push_back(std::move(ready->front()));
  ready->pop_front();
  const Agreed& head = *bucket->front();
  if (ready->empty() || !fuses(head, rules)) return;
  std::size_t bytes = bytes_of(head);
  ready->take_if([&](AgreedPtr& t) {
    const bool joins = fuses(*t, rules) && alike(head, *t, rules) && bytes + bytes_of(*t) <= rules.threshold;
    if (!joins) return false;
    bytes += bytes_of(*t);
    bucket->push_back(std::move(t));
    return true;
  });
  RODA_INVARIANT(bytes <= std::max(rules.threshold, bytes_of(head)), "a bucket is no larger than the threshold");
}

std::uint64_t kind_of(const Terms& terms) {
  Hash hash;
  hash.add(static_cast<std::uint64_t>(terms.collective));
  hash.add(static_cast<std::uint64_t>(terms.dtype));
  hash.add(static_cast<std::uint64_t>(terms.op));
  hash.add(static_cast<std::uint64_t>(terms.root));
  hash.add(std::bit_cast<std::uint64_t>(terms.prescale));
  hash.add(std::bit_cast<std::uint64_t>(terms.postscale));
  return std::max<std::uint64_t>(hash.value(), 1);
}

void FillingBuckets::complete(Filling* bucket) {
  RODA_INVARIANT(!bucket->tensors.empty() || bucket->bytes == 0, "a bucket without tensors has no bytes");
  if (!bucket->tensors.empty()) complete_.push_back(std::exchange(bucket->tensors, {}));
  bucket->bytes = 0;
}

void FillingBuckets::add(AgreedPtr tensor, const BucketRules& rules) {
  ++added_;
  if (!fuses(*tensor, rules)) {
    complete_.push_back({std::move(tensor)});
    return;
  }
  auto bucket = std::ranges::find_if(filling_, [&](const Filling& f) { return alike(*f.like, *tensor, rules); });
  const bool is_first = bucket == filling_.end();
  if (is_first) bucket = filling_.insert(bucket, Filling{tensor, kind_of(*tensor)});
  const std::size_t bytes = bytes_of(*tensor);
  if (bucket->bytes + bytes > rules.threshold) complete(&*bucket);
  bucket->bytes += bytes;
  RODA_INVARIANT(bucket->bytes <= rules.threshold, "a bucket on a device is no larger than the threshold");
  const bool is_alone = is_first && tensor->group.size < 2;
  bucket->tensors.push_back(std::move(tensor));
  if (is_alone) bucket->is_first = false;
  if (is_alone || bucket->bytes >= rules.complete) complete(&*bucket);
}

void FillingBuckets::settle() {
  for (Filling& bucket : filling_) {
    if (std::exchange(bucket.is_first, false)) complete(&bucket);
  }
}

void FillingBuckets::close(std::uint64_t kind) {
  std::erase_if(filling_, [&](Filling& bucket) {
    if (kind != 0 && bucket.kind != kind) return false;
    complete(&bucket);
    return true;
  });
}

bool FillingBuckets::take(std::vector<AgreedPtr>* bucket) {
  if (complete_.empty()) return false;
  *bucket = std::move(complete_.front());
  complete_.pop_front();
  return true;
}

void FillingBuckets::clear() {
  filling_.clear();
  complete_.clear();
}

std::size_t FillingBuckets::waiting(std::uint64_t kind) const {
  std::size_t count = 0;
  for (const Filling& bucket : filling_) {
    if (kind == 0 || bucket.kind == kind) count += bucket.tensors.size();
  }
  return count;
}

bool FillingBuckets::has_begun(std::uint64_t kind) const {
  return std::ranges::any_of(filling_, [kind](const Filling& bucket) { return bucket.kind == kind; });
}

std::size_t table_bytes(std::span<const AgreedPtr> tensors, std::size_t members) {
  const Agreed& head = *tensors.front();
  if (head.collective == RODA_BARRIER) return 0;
  if (head.collective == RODA_ALLTOALL) return largest_output(head, members);
  std::size_t bytes = 0;
  for (const AgreedPtr& tensor : tensors) bytes += bytes_of(*tensor);
  return bytes;
}

}  // namespace roda::negotiate

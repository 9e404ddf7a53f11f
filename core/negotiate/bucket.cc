#include "core/negotiate/bucket.h"

namespace roda::negotiate {
namespace {

bool fuses(const Agreed& t, std::size_t threshold, std::size_t limit) {
  return (t.collective == RODA_ALLREDUCE || t.collective == RODA_ADASUM_ALLREDUCE) && t.bytes(0) <= limit &&
         t.bytes(0) <= threshold;
}

bool alike(const Agreed& a, const Agreed& b) {
  return a.collective == b.collective && a.dtype == b.dtype && a.op == b.op && a.prescale == b.prescale &&
         a.postscale == b.postscale && a.on_device == b.on_device;
}

}  // namespace

std::vector<AgreedPtr> take_bucket(std::deque<AgreedPtr>* ready, std::size_t threshold, std::size_t limit) {
  std::vector<AgreedPtr> bucket{ready->front()};
  ready->pop_front();
  const Agreed& head = *bucket.front();
  if (!fuses(head, threshold, limit) || ready->empty()) return bucket;
  std::size_t bytes = head.bytes(0);
  std::deque<AgreedPtr> rest;
  for (AgreedPtr& t : *ready) {
    const bool joins = fuses(*t, threshold, limit) && alike(head, *t) && bytes + t->bytes(0) <= threshold;
    if (joins) bytes += t->bytes(0);
    if (joins) {
      bucket.push_back(std::move(t));
    } else {
      rest.push_back(std::move(t));
    }
  }
  ready->swap(rest);
  return bucket;
}

}  // namespace roda::negotiate

#include "core/negotiate/cache.h"

namespace roda::negotiate {

int Cache::find_name(const std::string& name) const {
  const auto it = by_name_.find(name);
  return it == by_name_.end() ? -1 : it->second;
}

int Cache::find(const Request& r, int member) const {
  const int bit = find_name(r.name);
  if (bit < 0) return -1;
  const Agreed& a = *slot(bit).agreed;
  if (a.collective != r.collective || a.dtype != r.dtype || a.op != r.op || a.root != r.root ||
      (a.on_device() ? a.devices[static_cast<std::size_t>(member)] : -1) != r.device || a.prescale != r.prescale ||
      a.postscale != r.postscale || a.shape.size() != r.shape.size() || !(a.group == r.group)) {
    return -1;
  }
  if (!r.shape.empty() && a.rows[static_cast<std::size_t>(member)] != r.shape[0]) return -1;
  for (std::size_t d = 1; d < r.shape.size(); ++d) {
    if (a.shape[d] != r.shape[d]) return -1;
  }
  return bit;
}

int Cache::make_room() {
  if (slots() < capacity_) {
    slots_.emplace_back();
    return slots() - 1;
  }
  for (int bit = 0; bit < slots(); ++bit) {
    if (slot(bit).agreed == nullptr) return bit;
  }
  for (const int bit : order_) {
    if (!slot(bit).arrived.empty()) continue;
    erase(bit);
    return bit;
  }
  return -1;
}

int Cache::insert(const std::shared_ptr<Agreed>& agreed, std::uint64_t now) {
  if (capacity_ == 0 || agreed->collective == RODA_ALLTOALL || agreed->collective == RODA_JOIN) return -1;
  const int bit = make_room();
  if (bit < 0) return -1;
  agreed->cache_bit = bit;
  Slot& s = slot(bit);
  s.agreed = agreed;
  s.since = now;
  s.arrived.clear();
  s.use = order_.insert(order_.end(), bit);
  by_name_[agreed->name] = bit;
  return bit;
}

void Cache::touch(int bit) { order_.splice(order_.end(), order_, slot(bit).use); }

void Cache::erase(int bit) {
  Slot& s = slot(bit);
  by_name_.erase(s.agreed->name);
  order_.erase(s.use);
  s.agreed = nullptr;
  s.arrived.clear();
}

}  // namespace roda::negotiate

#include "core/negotiate/cache.h"

#include <algorithm>

namespace roda::negotiate {

int Cache::find_arrived(const std::string& name, int other) const {
  const auto it = by_name_.find(name);
  if (it == by_name_.end()) return -1;
  const auto bit =
      std::find_if(it->second.begin(), it->second.end(), [&](int b) { return b != other && !slot(b).arrived.empty(); });
  return bit == it->second.end() ? -1 : *bit;
}

int Cache::find(const Request& r, int member) const {
  const auto it = by_name_.find(r.name);
  if (it == by_name_.end()) return -1;
  const auto bit = std::find_if(it->second.rbegin(), it->second.rend(), [&](int b) { return equals(b, r, member); });
  return bit == it->second.rend() ? -1 : *bit;
}

bool Cache::equals(int bit, const Request& r, int member) const {
  const Agreed& a = *slot(bit).agreed;
  if (a.collective != r.collective || a.dtype != r.dtype || a.op != r.op || a.root != r.root ||
      (a.on_device() ? a.devices[static_cast<std::size_t>(member)] : -1) != r.device || a.prescale != r.prescale ||
      a.postscale != r.postscale || a.shape.size() != r.shape.size() || !(a.group == r.group)) {
    return false;
  }
  if (!r.shape.empty() && a.rows[static_cast<std::size_t>(member)] != r.shape[0]) return false;
  for (std::size_t d = 1; d < r.shape.size(); ++d) {
    if (a.shape[d] != r.shape[d]) return false;
  }
  return true;
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
  if (const auto it = by_name_.find(agreed->name); it != by_name_.end()) {
    // Agreed on in full although it stood here: a bit on its way may still mean what was here before.
    const auto same = std::find_if(it->second.begin(), it->second.end(), [&](int b) {
      const Agreed& a = *slot(b).agreed;
      return static_cast<const Terms&>(a) == *agreed && a.rows == agreed->rows && a.devices == agreed->devices;
    });
    if (same != it->second.end()) {
      erase(*same);
    } else if (it->second.size() == kNamesakes) {
      erase(it->second.front());
    }
  }
  const int bit = make_room();
  if (bit < 0) return -1;
  agreed->cache_bit = bit;
  Slot& s = slot(bit);
  s.agreed = agreed;
  s.since = now;
  s.arrived.clear();
  s.use = order_.insert(order_.end(), bit);
  s.namesakes = &by_name_[agreed->name];
  s.namesakes->push_back(bit);
  return bit;
}

void Cache::touch(int bit) { order_.splice(order_.end(), order_, slot(bit).use); }

void Cache::erase(int bit) {
  Slot& s = slot(bit);
  std::erase(*s.namesakes, bit);
  if (s.namesakes->empty()) by_name_.erase(s.agreed->name);
  order_.erase(s.use);
  s.agreed = nullptr;
  s.arrived.clear();
}

}  // namespace roda::negotiate

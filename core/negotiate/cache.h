// The response cache of one process set: agreed tensors by bit, so that a known tensor costs one bit to announce.
//
// A name may have several entries, with different parameters: where names are used in turn, each of them meets each
// tensor of a step. Of a name's entries one at most has a round under way.
//
// Every rank holds the same cache, because every change follows from the log. Not thread-safe: owned by the negotiator.
#pragma once

#include <algorithm>
#include <cstdint>
#include <list>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "core/negotiate/request.h"
#include "core/wire/rank_ranges.h"
#include "plugins/base/invariant.h"

namespace roda::negotiate {

class Cache {
 public:
  // `capacity` entries, 0 disables.
  explicit Cache(int capacity) : capacity_(capacity) {}

  static constexpr std::size_t kNamesakes = 8;  // entries of one name; the oldest makes room

  struct Slot {
    AgreedPtr agreed;              // null: free
    std::uint64_t since = 0;       // log records applied when it was filled: older announcements mean something else
    wire::RankRanges arrived;      // by position in the set, for the round that is under way
    std::list<int>::iterator use;  // place in the order of use
    std::vector<int>* namesakes = nullptr;  // bits of its name, its own among them
  };

  // The bit of the entry that equals this request of member `member`; -1 on a miss. `hash`: any one of the name, the
  // same each time, by which what was found last is found again.
  int find(const Request& r, int member, std::size_t hash) {
    int& found = found_[hash % kFound];
    if (holds(found) && slot(found).agreed->name == r.name && equals(found, r, member)) return found;
    const auto it = by_name_.find(r.name);
    if (it == by_name_.end()) return -1;
    const auto bit = std::find_if(it->second.rbegin(), it->second.rend(), [&](int b) { return equals(b, r, member); });
    if (bit == it->second.rend()) return -1;
    return found = *bit;
  }

  // The bit of the entry of `name` that has a round under way, but not `other`; -1 if none.
  int find_arrived(const std::string& name, int other = -1) const {
    const auto it = by_name_.find(name);
    if (it == by_name_.end()) return -1;
    const auto bit = std::ranges::find_if(it->second, [&](int b) { return b != other && !slot(b).arrived.empty(); });
    return bit == it->second.end() ? -1 : *bit;
  }

  std::span<const int> bits_of(const std::string& name) const {
    const auto it = by_name_.find(name);
    return it == by_name_.end() ? std::span<const int>() : it->second;
  }

  bool has_namesakes(int bit) const { return slot(bit).namesakes->size() > 1; }

  int slots() const { return static_cast<int>(slots_.size()); }
  Slot& slot(int bit) { return slots_[static_cast<std::size_t>(bit)]; }
  const Slot& slot(int bit) const { return slots_[static_cast<std::size_t>(bit)]; }
  bool holds(int bit) const { return bit >= 0 && bit < slots() && slot(bit).agreed != nullptr; }

  // Stores an agreement and returns its bit; -1 when it isn't cacheable (an alltoall's splits are new every time) or
  // every entry has a round under way. The least recently used entry without one makes room.
  int insert(const std::shared_ptr<Agreed>& agreed, std::uint64_t now) {
    if (capacity_ == 0 || agreed->collective == RODA_ALLTOALL || agreed->collective == RODA_JOIN) return -1;
    if (const auto it = by_name_.find(agreed->name); it != by_name_.end()) {
      // Agreed on in full although it stood here: a bit on its way may still mean what was here before.
      const auto same = std::ranges::find_if(it->second, [&](int b) {
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
    RODA_INVARIANT(bit < capacity_ && slot(bit).agreed == nullptr, "a tensor gets a free bit of the cache");
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

  void touch(int bit) {
    RODA_INVARIANT(holds(bit), "a tensor that is used is in the cache");
    order_.splice(order_.end(), order_, slot(bit).use);
  }

  void erase(int bit) {
    Slot& s = slot(bit);
    RODA_INVARIANT(s.agreed != nullptr, "a tensor leaves the cache once");
    std::erase(*s.namesakes, bit);
    if (s.namesakes->empty()) by_name_.erase(s.agreed->name);
    order_.erase(s.use);
    s.agreed = nullptr;
    s.arrived.clear();
  }

 private:
  bool equals(int bit, const Request& r, int member) const {
    const Agreed& a = *slot(bit).agreed;
    if (a.collective != r.collective || a.dtype != r.dtype || a.op != r.op || a.root != r.root ||
        a.wire_format != r.wire_format ||
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

  int make_room() {
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

  int capacity_;
  std::vector<Slot> slots_;
  std::list<int> order_;                                       // least recently used first
  std::unordered_map<std::string, std::vector<int>> by_name_;  // in the order in which they came
  static constexpr std::size_t kFound = 1024;
  std::vector<int> found_ = std::vector<int>(kFound, -1);  // by a name's hash: what find() found last
};

}  // namespace roda::negotiate

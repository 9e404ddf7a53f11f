// The response cache of one process set: agreed tensors by bit, so that a known tensor costs one bit to announce.
//
// A name may have several entries, with different parameters: where names are used in turn, each of them meets each
// tensor of a step. Of a name's entries one at most has a round under way.
//
// Every rank holds the same cache, because every change follows from the log. Not thread-safe: owned by the negotiator.
#pragma once

#include <cstdint>
#include <list>
#include <string>
#include <unordered_map>
#include <vector>

#include "core/negotiate/request.h"
#include "core/wire/rank_ranges.h"

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

  // The bit of the latest entry that equals this request of member `member`; -1 on a miss.
  int find(const Request& request, int member) const;
  // The bit of the entry of `name` that has a round under way, but not `other`; -1 if none.
  int find_arrived(const std::string& name, int other = -1) const;
  bool has_namesakes(int bit) const { return slot(bit).namesakes->size() > 1; }

  int slots() const { return static_cast<int>(slots_.size()); }
  Slot& slot(int bit) { return slots_[static_cast<std::size_t>(bit)]; }
  const Slot& slot(int bit) const { return slots_[static_cast<std::size_t>(bit)]; }
  bool holds(int bit) const { return bit >= 0 && bit < slots() && slot(bit).agreed != nullptr; }

  // Stores an agreement and returns its bit; -1 when it isn't cacheable (an alltoall's splits are new every time) or
  // every entry has a round under way. The least recently used entry without one makes room.
  int insert(const std::shared_ptr<Agreed>& agreed, std::uint64_t now);
  void touch(int bit);
  void erase(int bit);

 private:
  bool equals(int bit, const Request& request, int member) const;
  int make_room();

  int capacity_;
  std::vector<Slot> slots_;
  std::list<int> order_;                                       // least recently used first
  std::unordered_map<std::string, std::vector<int>> by_name_;  // in the order in which they came
};

}  // namespace roda::negotiate

// A set of ranks as sorted, disjoint ranges that do not touch: short for the neighbours that hosts and subtrees mostly
// are.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

namespace roda::wire {

struct RankRange {
  std::int32_t first = 0;
  std::int32_t last = 0;  // belongs to it
  bool operator==(const RankRange&) const = default;
};

// Keeps its memory when cleared. Not thread-safe.
class RankRanges {
 public:
  void add(std::int32_t first, std::int32_t last) {
    const auto touches_or_follows = [&](const RankRange& r) { return r.last < first - 1; };
    const auto begin = std::partition_point(ranges_.begin(), ranges_.end(), touches_or_follows);
    auto end = begin;
    for (; end != ranges_.end() && end->first <= last + 1; ++end) {
      first = std::min(first, end->first);
      last = std::max(last, end->last);
    }
    if (begin == end) {
      ranges_.insert(begin, {first, last});
    } else {
      *begin = {first, last};
      ranges_.erase(begin + 1, end);
    }
  }
  void add(std::span<const RankRange> others) {
    for (const RankRange& r : others) add(r.first, r.last);
  }
  void clear() { ranges_.clear(); }

  bool empty() const { return ranges_.empty(); }
  bool contains(std::int32_t rank) const {
    const auto at =
        std::partition_point(ranges_.begin(), ranges_.end(), [&](const RankRange& r) { return r.last < rank; });
    return at != ranges_.end() && at->first <= rank;
  }
  std::int32_t count() const {
    std::int32_t n = 0;
    for (const RankRange& r : ranges_) n += r.last - r.first + 1;
    return n;
  }
  std::span<const RankRange> ranges() const { return ranges_; }
  bool operator==(const RankRanges&) const = default;

 private:
  std::vector<RankRange> ranges_;
};

}  // namespace roda::wire

// A set of ranks as sorted, disjoint ranges that do not touch: short for the neighbours that hosts and subtrees mostly
// are, one range for everybody.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

namespace roda::wire {

struct RankRange {
  std::int32_t first = 0;
  std::int32_t last = 0;  // belongs to it
  std::int32_t count() const { return last - first + 1; }
  bool operator==(const RankRange&) const = default;
};

// Keeps its memory when cleared. Not thread-safe.
class RankRanges {
 public:
  void add(std::int32_t first, std::int32_t last) {
    if (ranges_.empty() || first >= ranges_.back().first) return extend({first, last});
    const auto ends_before = [&](const RankRange& r) { return r.last < first - 1; };
    const auto begin = std::ranges::partition_point(ranges_, ends_before);
    auto end = begin;
    for (; end != ranges_.end() && end->first <= last + 1; ++end) {
      first = std::min(first, end->first);
      last = std::max(last, end->last);
      count_ -= end->count();
    }
    const RankRange merged{first, last};
    count_ += merged.count();
    if (begin == end) {
      ranges_.insert(begin, merged);
    } else {
      *begin = merged;
      ranges_.erase(begin + 1, end);
    }
  }
  // Sorted and disjoint.
  void add(std::span<const RankRange> others) {
    constexpr std::size_t kFew = 8;
    if (others.size() <= kFew || ranges_.empty()) {
      for (const RankRange& r : others) add(r.first, r.last);
      return;
    }
    // Many among many: one pass over both.
    RankRanges both;
    both.ranges_.reserve(ranges_.size() + others.size());
    auto mine = ranges_.cbegin();
    for (const RankRange& other : others) {
      for (; mine != ranges_.cend() && mine->first < other.first; ++mine) both.extend(*mine);
      both.extend(other);
    }
    for (; mine != ranges_.cend(); ++mine) both.extend(*mine);
    *this = std::move(both);
  }
  void clear() {
    ranges_.clear();
    count_ = 0;
  }

  bool empty() const { return ranges_.empty(); }
  bool contains(std::int32_t rank) const {
    const auto at = std::ranges::partition_point(ranges_, [&](const RankRange& r) { return r.last < rank; });
    return at != ranges_.end() && at->first <= rank;
  }
  std::int32_t count() const { return count_; }
  std::span<const RankRange> ranges() const { return ranges_; }
  // Calls use(rank) for each, ascending.
  void each(auto use) const {
    for (const RankRange& r : ranges_) {
      for (std::int32_t rank = r.first; rank <= r.last; ++rank) use(rank);
    }
  }
  bool operator==(const RankRanges&) const = default;

 private:
  void append(RankRange range) {
    ranges_.push_back(range);
    count_ += range.count();
  }
  // By a range that begins no earlier than any before it.
  void extend(RankRange range) {
    if (ranges_.empty() || ranges_.back().last < range.first - 1) return append(range);
    const std::int32_t more = std::max(0, range.last - ranges_.back().last);
    ranges_.back().last += more;
    count_ += more;
  }

  std::vector<RankRange> ranges_;
  std::int32_t count_ = 0;
};

}  // namespace roda::wire

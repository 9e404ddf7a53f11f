// Who belongs to a process set: world ranks in ascending order, by position. Ranges of ranks map to ranges of positions
// at once, never rank by rank.
//
// Immutable; any thread.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <utility>
#include <vector>

#include "core/wire/rank_ranges.h"

namespace roda::negotiate {

class Members {
 public:
  // Ascending and different.
  explicit Members(std::vector<std::int32_t> ranks) : ranks_(std::move(ranks)) {}

  // Whether these can be a set's, in a job of `size` ranks.
  static bool may_be(const std::vector<std::int32_t>& ranks, int size) {
    return !ranks.empty() && ranks.front() >= 0 && ranks.back() < size &&
           std::ranges::is_sorted(ranks, std::less_equal<>());
  }

  int size() const { return static_cast<int>(ranks_.size()); }
  std::int32_t rank(int position) const { return ranks_[static_cast<std::size_t>(position)]; }
  const std::vector<std::int32_t>& ranks() const { return ranks_; }

  // -1: not a member.
  int position(std::int32_t rank) const {
    if (ranks_.empty() || rank < ranks_.front() || rank > ranks_.back()) return -1;
    if (are_neighbours()) return rank - ranks_.front();
    const auto it = std::ranges::lower_bound(ranks_, rank);
    return *it == rank ? static_cast<int>(it - ranks_.begin()) : -1;
  }
  // The positions of all ranks of the ranges, which are sorted and disjoint; false when a rank is no member.
  bool positions(std::span<const wire::RankRange> ranges, wire::RankRanges* out) const {
    out->clear();
    std::size_t next = 0;  // behind the range before: where ranks alternate, the next one begins there
    for (const wire::RankRange& range : ranges) {
      const bool is_next = next < ranks_.size() && ranks_[next] == range.first;
      const int first = is_next ? static_cast<int>(next) : position(range.first);
      const int last = first + range.count() - 1;
      if (first < 0 || last >= size() || rank(last) != range.last) return false;
      out->add(first, last);
      next = static_cast<std::size_t>(last) + 1;
    }
    return true;
  }

 private:
  bool are_neighbours() const { return ranks_.back() - ranks_.front() == size() - 1; }
  std::vector<std::int32_t> ranks_;
};

}  // namespace roda::negotiate

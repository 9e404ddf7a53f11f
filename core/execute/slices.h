// The slices of a stage's data under way, and in which order those of a composition begin their steps.
//
// Not thread-safe.
#pragma once

#include <algorithm>
#include <cstddef>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "plugins/base/invariant.h"
#include "plugins/base/status.h"

namespace roda::execute {

// Slices begin in order, as places become free, and end in order. Slice k is in place k % size. Of a Slice, is_idle()
// says that the one that was begun there has ended.
template <typename Slice>
class Pipeline {
 public:
  void add(std::unique_ptr<Slice> place) { places_.push_back(std::move(place)); }
  // So many slices are to come. None is under way.
  void reset(std::size_t slices) {
    slices_ = slices;
    begun_ = ended_ = 0;
  }

  // Whether a slice can begin.
  bool has_room() const { return begun_ < slices_ && begun_ - ended_ < places_.size(); }
  // `begin`s slices, given a Slice and a number, while there is room.
  template <typename Begin>
  Status begin(const Begin& begin) {
    for (; has_room(); ++begun_) RODA_RETURN_IF_ERROR(begin(at(begun_), begun_));
    return {};
  }

  // `advance`s those under way, the oldest first, and tells `end` of those that have ended, by their numbers.
  template <typename Advance, typename End>
  Status advance(const Advance& advance, const End& end) {
    for (std::size_t k = ended_; k < begun_; ++k) RODA_RETURN_IF_ERROR(advance(at(k)));
    for (; ended_ < begun_ && at(ended_).is_idle(); ++ended_) end(at(ended_), ended_);
    return {};
  }

  bool has_ended() const { return ended_ == slices_; }
  const std::vector<std::unique_ptr<Slice>>& places() const { return places_; }
  // The oldest slice under way, or, where there is none, any place.
  const Slice& oldest() const { return *places_[ended_ % places_.size()]; }
  bool is_empty() const { return ended_ == begun_; }
  // ", slice 3 of 8".
  std::string describe() const {
    return ", slice " + std::to_string(std::min(ended_ + 1, slices_)) + " of " + std::to_string(slices_);
  }

 private:
  Slice& at(std::size_t slice) { return *places_[slice % places_.size()]; }

  std::vector<std::unique_ptr<Slice>> places_;
  std::size_t slices_ = 0;
  std::size_t begun_ = 0;
  std::size_t ended_ = 0;  // all before it have
};

// In which order the slices of a composition begin their steps.
//
// A step of a slice begins after the same step of the slice before. That suffices where stages are told apart by tags
// or slots. A group that tells its stages apart by their order alone (native collectives), or has fewer slots than
// slices in flight, needs one order over all of its steps, the same on every rank: the order of a pipeline in which
// every step takes one tick. Real slices drift away from that pipeline, but each of their waits is for something with a
// smaller (tick, slice), on every rank: so no ring of waits can close.
class StartOrder {
 public:
  // `in_flight`: slices on their way, equal on all ranks. `rivals[step]`: the other steps that must keep one order with
  // it.
  StartOrder() = default;
  StartOrder(std::size_t in_flight, std::vector<std::vector<std::size_t>> rivals)
      : in_flight_(in_flight), rivals_(std::move(rivals)), next_(rivals_.size()) {}

  void reset(std::size_t slices) {
    slices_ = slices;
    std::ranges::fill(next_, 0);
  }

  // Whether the step of that slice is the next to begin, among its rivals too.
  bool may_begin(std::size_t step, std::size_t slice) const {
    if (next_[step] != slice) return false;
    const auto mine = place(step, slice);
    return std::ranges::none_of(
        rivals_[step], [&](std::size_t rival) { return next_[rival] < slices_ && place(rival, next_[rival]) < mine; });
  }

  void begun(std::size_t step) {
    RODA_INVARIANT(next_[step] < slices_, "a step begins once for each slice");
    ++next_[step];
  }

 private:
  // A slice enters the pipeline one tick after the one before it, and not before the last step of the one that had its
  // place in flight.
  std::pair<std::size_t, std::size_t> place(std::size_t step, std::size_t slice) const {
    const std::size_t round = std::max(in_flight_, next_.size());
    return {slice / in_flight_ * round + slice % in_flight_ + step, slice};
  }

  std::size_t in_flight_ = 1;
  std::vector<std::vector<std::size_t>> rivals_;
  std::vector<std::size_t> next_;  // [step] the slice whose turn it is
  std::size_t slices_ = 0;
};

}  // namespace roda::execute

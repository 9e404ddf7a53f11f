// In which order the slices of a composed schedule begin their steps.
//
// A step of a slice begins after the same step of the slice before. That suffices where stages are told apart by tags
// or slots. A group that tells its stages apart by their order alone (native collectives), or has fewer slots than
// slices in flight, needs one order over all of its steps, the same on every rank: the order of a pipeline in which
// every step takes one tick. Real slices drift away from that pipeline, but each of their waits is for something with a
// smaller (tick, slice), on every rank: so no ring of waits can close.
//
// Pure; not thread-safe.
#pragma once

#include <cstddef>
#include <utility>
#include <vector>

namespace roda::execute {

class StartOrder {
 public:
  // `in_flight`: slices on their way, equal on all ranks. `rivals[step]`: the other steps that must keep one order with
  // it.
  StartOrder(std::size_t in_flight, std::vector<std::vector<std::size_t>> rivals);

  void reset(std::size_t slices);
  // Whether the step of that slice is the next to begin, among its rivals too.
  bool may_begin(std::size_t step, std::size_t slice) const;
  void begun(std::size_t step) { ++next_[step]; }

 private:
  std::pair<std::size_t, std::size_t> place(std::size_t step, std::size_t slice) const;

  std::size_t in_flight_;
  std::vector<std::vector<std::size_t>> rivals_;
  std::vector<std::size_t> next_;  // [step] the slice whose turn it is
  std::size_t slices_ = 0;
};

}  // namespace roda::execute

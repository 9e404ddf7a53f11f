// In which order the pieces of a composition begin their steps.
//
// A step of a piece begins after the same step of the piece before. That suffices where stages are told apart by tags
// or slots. A group that tells its stages apart by their order alone (native collectives), or has fewer slots than
// pieces in flight, needs one order over all of its steps, the same on every rank: the order of a pipeline in which
// every step takes one tick. Real pieces drift away from that pipeline, but each of their waits is for something with a
// smaller (tick, piece), on every rank: so no ring of waits can close.
//
// Pure; not thread-safe.
#pragma once

#include <cstddef>
#include <utility>
#include <vector>

namespace roda::execute {

class StartOrder {
 public:
  // `lanes`: pieces in flight, equal on all ranks. `rivals[step]`: the other steps that must keep one order with it.
  StartOrder(std::size_t lanes, std::vector<std::vector<std::size_t>> rivals);

  void reset(std::size_t pieces);
  // Whether the step of that piece is the next to begin, among its rivals too.
  bool may_begin(std::size_t step, std::size_t piece) const;
  void begun(std::size_t step) { ++next_[step]; }

 private:
  std::pair<std::size_t, std::size_t> place(std::size_t step, std::size_t piece) const;

  std::size_t lanes_;
  std::vector<std::vector<std::size_t>> rivals_;
  std::vector<std::size_t> next_;  // [step] the piece whose turn it is
  std::size_t pieces_ = 0;
};

}  // namespace roda::execute

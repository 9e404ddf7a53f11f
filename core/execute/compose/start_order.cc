#include "core/execute/compose/start_order.h"

#include <algorithm>

namespace roda::execute {

StartOrder::StartOrder(std::size_t lanes, std::vector<std::vector<std::size_t>> rivals)
    : lanes_(lanes), rivals_(std::move(rivals)), next_(rivals_.size()) {}

void StartOrder::reset(std::size_t pieces) {
  pieces_ = pieces;
  std::fill(next_.begin(), next_.end(), 0);
}

// A piece enters the pipeline one tick after the one before it, and not before the last step of the one that had its
// lane.
std::pair<std::size_t, std::size_t> StartOrder::place(std::size_t step, std::size_t piece) const {
  const std::size_t round = std::max(lanes_, next_.size());
  return {piece / lanes_ * round + piece % lanes_ + step, piece};
}

bool StartOrder::may_begin(std::size_t step, std::size_t piece) const {
  if (next_[step] != piece) return false;
  const auto mine = place(step, piece);
  return std::none_of(rivals_[step].begin(), rivals_[step].end(),
                      [&](std::size_t rival) { return next_[rival] < pieces_ && place(rival, next_[rival]) < mine; });
}

}  // namespace roda::execute

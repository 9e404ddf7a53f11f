#include "core/execute/compose/start_order.h"

#include <algorithm>

namespace roda::execute {

StartOrder::StartOrder(std::size_t in_flight, std::vector<std::vector<std::size_t>> rivals)
    : in_flight_(in_flight), rivals_(std::move(rivals)), next_(rivals_.size()) {}

void StartOrder::reset(std::size_t slices) {
  slices_ = slices;
  std::fill(next_.begin(), next_.end(), 0);
}

// A slice enters the pipeline one tick after the one before it, and not before the last step of the one that had its
// place in flight.
std::pair<std::size_t, std::size_t> StartOrder::place(std::size_t step, std::size_t slice) const {
  const std::size_t round = std::max(in_flight_, next_.size());
  return {slice / in_flight_ * round + slice % in_flight_ + step, slice};
}

bool StartOrder::may_begin(std::size_t step, std::size_t slice) const {
  if (next_[step] != slice) return false;
  const auto mine = place(step, slice);
  return std::none_of(rivals_[step].begin(), rivals_[step].end(),
                      [&](std::size_t rival) { return next_[rival] < slices_ && place(rival, next_[rival]) < mine; });
}

}  // namespace roda::execute

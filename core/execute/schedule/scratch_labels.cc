#include "core/execute/schedule/scratch_labels.h"

namespace roda::execute {

using schedule::Range;
using schedule::Space;

namespace {

Operand data_operand(const Range& range) {
  Operand operand;
  operand.space = operand.extent = range.space == Space::kScratch ? Space::kOutput : range.space;
  operand.first = range.first;
  operand.count = range.count;
  return operand;
}

}  // namespace

std::optional<Operand> ScratchLabels::read(const Range& range) const {
  if (range.space != Space::kScratch || range.count == 0) return data_operand(range);
  const Label& head = labels_[static_cast<std::size_t>(range.first)];
  for (std::int32_t i = 0; i < range.count; ++i) {
    const Label& label = labels_[static_cast<std::size_t>(range.first + i)];
    const bool together = label.set && label.extent == head.extent && label.chunk == head.chunk + i &&
                          label.unit == head.unit && label.unit_first == head.unit_first;
    if (!together) return std::nullopt;
  }
  return Operand{Space::kScratch, head.extent, head.chunk, range.count, head.unit, head.unit_first, false};
}

Operand ScratchLabels::write(const Range& range, const Operand& like) {
  if (range.space != Space::kScratch || range.count == 0) return data_operand(range);
  const auto old = read(range);
  if (old && old->extent == like.extent && old->first == like.first) return *old;
  forget_neighbours(range);
  for (std::int32_t i = 0; i < range.count; ++i) {
    labels_[static_cast<std::size_t>(range.first + i)] = {true, like.extent, like.first + i, range.first, like.first};
  }
  return {Space::kScratch, like.extent, like.first, range.count, range.first, like.first, false};
}

// Chunks of one unit lie back to back from where it begins, not each in a place of its own, so writing a new unit over
// a part of an old one may hit the rest of it.
void ScratchLabels::forget_neighbours(const Range& range) {
  for (std::int32_t i = 0; i < range.count; ++i) {
    const Label hit = labels_[static_cast<std::size_t>(range.first + i)];
    if (!hit.set) continue;
    for (Label& label : labels_) {
      if (label.unit == hit.unit && label.unit_first == hit.unit_first && label.extent == hit.extent) label.set = false;
    }
  }
}

}  // namespace roda::execute

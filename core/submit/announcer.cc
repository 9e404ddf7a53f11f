#include "core/submit/announcer.h"

#include <algorithm>
#include <utility>

namespace roda::engine {

wire::RecordWriter& Announcer::record() {
  if (!begun_) writer_.begin(rank_, negotiator_.applied());
  begun_ = true;
  return writer_;
}

void Announcer::announce(Operation* op) {
  wire::RecordWriter& record = this->record();
  op->bit = op->request.collective == RODA_JOIN ? -1 : negotiator_.cached_bit(op->request);
  PerSet& set = sets_[op->request.set];
  const auto bit = static_cast<std::size_t>(std::max(op->bit, 0));
  if (set.announced.size() <= bit) {
    set.announced.resize(bit + 1);
    set.words.resize(bit / 64 + 1);
  }
  // A bit that still stands for an announcement on its way can't stand for a second one.
  if (op->bit < 0 || set.announced[bit] != nullptr) {
    op->bit = -1;
    record.request(op->request);
    return;
  }
  set.words[bit / 64] |= std::uint64_t{1} << (bit % 64);
  set.announced[bit] = op;
}

std::span<const std::byte> Announcer::take() {
  wire::RecordWriter& record = this->record();
  for (auto& [id, set] : sets_) {
    auto& words = set.words;
    const auto first = std::find_if(words.begin(), words.end(), [](std::uint64_t w) { return w != 0; });
    if (first == words.end()) continue;
    const auto last = std::find_if(words.rbegin(), words.rend(), [](std::uint64_t w) { return w != 0; }).base();
    record.bits(id, static_cast<std::uint32_t>(first - words.begin()), std::span(first, last));
    std::fill(first, last, 0);
  }
  begun_ = false;
  return record.end();
}

Operation* Announcer::take_announced(std::int32_t id, int bit, std::optional<std::string_view> name) {
  const auto set = sets_.find(id);
  if (set == sets_.end() || static_cast<std::size_t>(bit) >= set->second.announced.size()) return nullptr;
  Operation*& op = set->second.announced[static_cast<std::size_t>(bit)];
  if (op != nullptr && name.has_value() && op->request.name != *name) return nullptr;
  return std::exchange(op, nullptr);
}

}  // namespace roda::engine

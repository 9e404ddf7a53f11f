#include "core/submit/announcer.h"

#include <algorithm>
#include <utility>

namespace roda::engine {

void Announcer::begin() {
  if (!begun_) writer_.begin(rank_, negotiator_.applied());
  begun_ = true;
}

void Announcer::announce(Operation* op) {
  begin();
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
    writer_.request(op->request);
    return;
  }
  set.words[bit / 64] |= std::uint64_t{1} << (bit % 64);
  set.announced[bit] = op;
}

void Announcer::finished(std::int32_t set, std::uint64_t sequence) {
  begin();
  writer_.number(wire::Item::kFinished, set, sequence);
}

void Announcer::flush(std::int32_t set, std::uint64_t ready_count) {
  begin();
  writer_.number(wire::Item::kFlush, set, ready_count);
}

void Announcer::plain(wire::Item kind, std::int32_t set) {
  begin();
  writer_.plain(kind, set);
}

void Announcer::add_set(std::span<const std::int32_t> ranks) {
  begin();
  writer_.add_set(ranks);
}

std::span<const std::byte> Announcer::take() {
  begin();
  for (auto& [id, set] : sets_) {
    auto& words = set.words;
    const auto first = std::find_if(words.begin(), words.end(), [](std::uint64_t w) { return w != 0; });
    if (first == words.end()) continue;
    const auto last = std::find_if(words.rbegin(), words.rend(), [](std::uint64_t w) { return w != 0; }).base();
    writer_.bits(id, static_cast<std::uint32_t>(first - words.begin()), std::span(first, last));
    std::fill(first, last, 0);
  }
  begun_ = false;
  return writer_.end();
}

Operation** Announcer::find(std::int32_t id, int bit) {
  const auto it = sets_.find(id);
  if (it == sets_.end() || static_cast<std::size_t>(bit) >= it->second.announced.size()) return nullptr;
  return &it->second.announced[static_cast<std::size_t>(bit)];
}

Operation* Announcer::settle(std::int32_t id, int bit) {
  Operation** place = find(id, bit);
  return place == nullptr ? nullptr : std::exchange(*place, nullptr);
}

Operation* Announcer::settle(std::int32_t id, int bit, std::string_view name) {
  Operation** place = find(id, bit);
  if (place == nullptr || *place == nullptr || (*place)->request.name != name) return nullptr;
  return std::exchange(*place, nullptr);
}

}  // namespace roda::engine

// Turns submissions into records of the log: one bit for a tensor that the cache knows, the full request otherwise.
//
// Owned by the holder of the baton.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "core/negotiate/negotiator.h"
#include "core/submit/operation.h"
#include "core/wire/record.h"

namespace roda::engine {

class Announcer {
 public:
  Announcer(negotiate::Negotiator& negotiator, std::int32_t rank) : negotiator_(negotiator), rank_(rank) {}

  // The record under construction, for whoever adds to it; tensors go through announce(), which remembers which
  // operation a bit stands for until it is taken.
  wire::RecordWriter& record() {
    if (!begun_) writer_.begin(rank_, negotiator_.applied());
    begun_ = true;
    return writer_;
  }

  void announce(Operation* op) {
    wire::RecordWriter& record = this->record();
    op->bit = op->request.collective == RODA_JOIN ? -1 : negotiator_.cached_bit(op->request, op->name_hash);
    const auto id = static_cast<std::size_t>(op->request.set);
    if (id >= sets_.size()) sets_.resize(id + 1);
    PerSet& set = sets_[id];
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

  bool empty() const { return !begun_; }
  std::size_t bytes() const { return begun_ ? writer_.size() : 0; }
  // The record so far, and starts a new one with the next addition.
  std::span<const std::byte> take() {
    wire::RecordWriter& record = this->record();
    for (std::size_t id = 0; id < sets_.size(); ++id) {
      auto& words = sets_[id].words;
      const auto first = std::ranges::find_if(words, [](std::uint64_t w) { return w != 0; });
      if (first == words.end()) continue;
      const auto last = std::find_if(words.rbegin(), words.rend(), [](std::uint64_t w) { return w != 0; }).base();
      record.bits(static_cast<std::int32_t>(id), static_cast<std::uint32_t>(first - words.begin()),
                  std::span(first, last));
      std::fill(first, last, 0);
    }
    begun_ = false;
    return record.end();
  }

  // The operation announced by `bit`, or null.
  const Operation* announced(std::int32_t set, int bit) {
    Operation** const place = find(set, bit);
    return place == nullptr ? nullptr : *place;
  }
  // The same; forgets it. With a name only if it is the operation of that name: a tensor may leave the cache between
  // its agreement and its launch, and the bit then stands for another one.
  Operation* take_announced(std::int32_t set, int bit, std::optional<std::string_view> name = {}) {
    Operation** const place = find(set, bit);
    if (place == nullptr || *place == nullptr) return nullptr;
    return name.has_value() && (*place)->request.name != *name ? nullptr : std::exchange(*place, nullptr);
  }
  void forget_set(std::int32_t set) {
    if (static_cast<std::size_t>(set) < sets_.size()) sets_[static_cast<std::size_t>(set)] = {};
  }

 private:
  struct PerSet {
    std::vector<std::uint64_t> words;   // bits of the record under construction
    std::vector<Operation*> announced;  // by bit; null: nothing of this rank's is under way
  };
  // The place of that bit's operation; null: there is none.
  Operation** find(std::int32_t id, int bit) {
    if (static_cast<std::size_t>(id) >= sets_.size()) return nullptr;
    auto& announced = sets_[static_cast<std::size_t>(id)].announced;
    return static_cast<std::size_t>(bit) < announced.size() ? &announced[static_cast<std::size_t>(bit)] : nullptr;
  }
  negotiate::Negotiator& negotiator_;
  std::int32_t rank_;
  wire::RecordWriter writer_;
  bool begun_ = false;
  std::vector<PerSet> sets_;  // by id
};

}  // namespace roda::engine

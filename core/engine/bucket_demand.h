// What this rank still has to come in buckets of tensors on devices, which fill (negotiate::FillingBuckets), by process
// set and kind of tensor; and for which kinds one of its threads waits.
//
// Owned by the holder of the baton.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <map>

#include "core/engine/hold.h"
#include "core/negotiate/negotiator.h"
#include "core/submit/operation.h"

namespace roda::engine {

class BucketDemand {
 public:
  // No tensor has come for so long: none is to be waited for. Longer than a program takes from one gradient to the
  // next.
  static constexpr std::chrono::milliseconds kQuiet{2};
  using Kind = TensorKind;

  void submitted(const Kind& kind) {
    Entry& entry = entries_[kind];
    ++entry.unlaunched;
    entry.is_awaited = false;
  }
  // Launched, or ended without that.
  void left(const Operation& op) {
    if (op.request.device >= 0) --entries_[Kind::of(op.request)].unlaunched;
  }
  void awaited(const Kind& kind) { entries_[kind].is_awaited = true; }
  void forget_set(std::int32_t set) {
    std::erase_if(entries_, [set](const auto& entry) { return entry.first.set == set; });
  }

  // Calls say(kind), once for each wait, for what a thread waits for where all that this rank has submitted of it has
  // been agreed on.
  template <typename Say>
  void each_due(const negotiate::Negotiator& negotiator, Say say) {
    for (auto item = entries_.begin(); item != entries_.end();) {
      const auto& [kind, entry] = *item;
      bool goes = !negotiator.has_set(kind.set);
      if (!goes) {
        const negotiate::FillingBuckets& filling = negotiator.filling(kind.set);
        const bool is_whole = filling.waiting(kind.number) == entry.unlaunched;
        const bool has_begun = filling.has_begun(kind.number);
        if (entry.is_awaited && has_begun && is_whole) {
          say(kind);
          item->second.is_awaited = false;
        }
        goes = entry.unlaunched == 0 && (!entry.is_awaited || !has_begun);
      }
      item = goes ? entries_.erase(item) : std::next(item);
    }
  }
  // How long sets have got no more tensors.
  Hold& quiet() { return quiet_; }
  const Hold& quiet() const { return quiet_; }

 private:
  struct Entry {
    std::size_t unlaunched = 0;
    bool is_awaited = false;
  };
  std::map<Kind, Entry> entries_;
  Hold quiet_;
};

}  // namespace roda::engine

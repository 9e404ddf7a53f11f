// Counts, by process set and kind of tensor, the tensors on devices that this rank has submitted and that no launch has
// taken yet: buckets of theirs fill (negotiate::FillingBuckets). Knows for which kinds a thread of this rank waits.
//
// Owned by the holder of the baton.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <map>
#include <optional>

#include "core/negotiate/negotiator.h"
#include "core/submit/operation.h"

namespace roda::engine {

// How long ready tensors still wait for others to join them (HOROVOD_CYCLE_TIME), by process set.
class Hold {
 public:
  using Clock = std::chrono::steady_clock;

  // Zero: nothing waits. What waits now begins anew.
  void set_window(std::chrono::duration<double, std::milli> window) {
    window_ = std::chrono::duration_cast<Clock::duration>(window);
    until_.clear();
  }
  bool is_on() const { return window_ > Clock::duration::zero(); }

  Clock::duration window() const { return window_; }

  // The set has ready tensors: whether their time is over, and with it the wait. The first call begins it, and so does
  // one with another number of `news` than the call before.
  bool is_over(std::int32_t set, Clock::time_point now, std::uint64_t news = 0) {
    const auto [wait, is_new] = until_.emplace(set, Wait{now + window_, news});
    if (!is_new && wait->second.news != news) wait->second = {now + window_, news};
    if (now < wait->second.end) return false;
    until_.erase(wait);
    return true;
  }
  // The set has none.
  void end(std::int32_t set) { until_.erase(set); }
  // When the first wait is over.
  std::optional<Clock::time_point> first_end() const {
    if (until_.empty()) return std::nullopt;
    return std::ranges::min_element(until_, {}, [](const auto& wait) { return wait.second.end; })->second.end;
  }

 private:
  struct Wait {
    Clock::time_point end;
    std::uint64_t news;
  };
  Clock::duration window_{};
  std::map<std::int32_t, Wait> until_;
};

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
    quiet_.end(set);
  }

  // Calls say(kind), once for each wait, for what a thread waits for where all that this rank has submitted of it has
  // been agreed on.
  void each_due(const negotiate::Negotiator& negotiator, auto say) {
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

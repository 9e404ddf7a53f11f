// How long this rank waits for ranks that come last, and what it has heard of those that always do.
//
// Owned by the holder of the baton, but for told() and collected().
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "core/negotiate/request.h"
#include "core/observe/rank_load.h"
#include "core/observe/straggler_watch.h"
#include "plugins/base/coarse_clock.h"
#include "plugins/base/log.h"
#include "plugins/base/mutex.h"

namespace roda::engine {

class LastRanks {
 public:
  // A thread that waits has had nothing to do for some turns, and no data move.
  void idle() {
    if (idle_since_ == 0) idle_since_ = now();
  }
  bool is_idle() const { return idle_since_ != 0; }
  // Something of this rank moves.
  void busy() { idle_since_ = 0; }
  // The thread has what it waited for: what it submits next is a step's first tensor, in a program that submits several
  // tensors before it waits.
  void wait_is_over() {
    busy();
    if (submitted_ != 0) has_steps_ = submitted_ > 1;
    submitted_ = 0;
  }
  // By its number in the flight recorder.
  void submitted(std::uint64_t number) {
    busy();
    if (submitted_++ == 0) first_ = number;
  }

  // All ranks have announced a tensor of this rank's: the `number` submitted at that time, of which `last` came last.
  // `counts`: whether it is for this rank to say how long it has waited. What is to be told to all ranks.
  std::optional<negotiate::Lateness> complete(const negotiate::Agreed& tensor, std::int32_t last, bool counts,
                                              std::uint64_t number, CoarseClock::time_point submitted,
                                              CoarseClock::time_point at) {
    observe::StragglerWatch::Complete told{.tensor = key_of(tensor), .last = last};
    if (counts && idle_since_ != 0) told.waited = now() - idle_since_;
    if (number == first_ && has_steps_) told.first = (at - submitted).count();
    busy();
    auto lateness = watch_.complete(told, at);
    if (lateness) {
      const observe::RankLoad load = read();
      lateness->ran = observe::share_of(&observe::RankLoad::ran, before(), load);
      lateness->queued = observe::share_of(&observe::RankLoad::queued, before(), load);
      lateness->kernel = observe::share_of(&observe::RankLoad::kernel, before(), load);
      lateness->collected = observe::share_of(&observe::RankLoad::collected, before(), load);
      const auto link = observe::worst_link(before().links, load.links, load.at - before().at);
      lateness->link_lost = link.lost;
      lateness->link_busy = link.busy;
      link.words.copy(lateness->cause.data(), lateness->cause.size() - 1);
    }
    if (watch_.steps() >= next_steps_ && at >= next_look_) look(at);
    return lateness;
  }

  // What another rank has found of this one, with the cause. Nothing where cores are short, whose lack falls on a rank
  // by chance for a while, and few steps were looked at.
  std::optional<negotiate::Lateness> explain(negotiate::Lateness lateness) const {
    const std::string cause =
        observe::cause_of(before(), read(), lateness.share,
                          {.ran = lateness.ran,
                           .queued = lateness.queued,
                           .kernel = lateness.kernel,
                           .collected = lateness.collected,
                           .link = {lateness.link_lost, lateness.link_busy, lateness.cause.data()}});
    const bool is_early = lateness.of_steps < observe::StragglerWatch::kSteps;
    if (is_early && cause.starts_with(observe::kShortOfCores)) return std::nullopt;
    lateness.cause = {};
    cause.copy(lateness.cause.data(), lateness.cause.size() - 1);
    lateness.is_told = 1;
    return lateness;
  }
  void tell(const negotiate::Lateness& lateness) {
    watch_.named(lateness.rank);
    const MutexLock lock(mutex_);
    told_ = lateness;
    ++heard_;
  }
  // Any thread: Python's garbage collector has run for so long, ns.
  void collected(std::int64_t nanoseconds) { collected_.fetch_add(nanoseconds, std::memory_order_relaxed); }
  // Any thread. The latest, and how many there were.
  std::pair<std::uint64_t, negotiate::Lateness> told() const {
    const MutexLock lock(mutex_);
    return {heard_, told_};
  }

 private:
  // The latest look, but for one of a moment before.
  const observe::RankLoad& before() const {
    return before_.at == 0 || now() - latest_.at >= (latest_.at - before_.at) / 2 ? latest_ : before_;
  }
  observe::RankLoad read() const {
    observe::RankLoad load = observe::read_load();
    load.collected = collected_.load(std::memory_order_relaxed);
    return load;
  }
  static std::int64_t now() { return std::chrono::steady_clock::now().time_since_epoch().count(); }
  // Unnamed tensors have a number of their own each time.
  static std::uint64_t key_of(const negotiate::Agreed& tensor) {
    const auto set = static_cast<std::uint64_t>(tensor.set) << 32;
    if (tensor.cache_bit >= 0) return set + static_cast<std::uint64_t>(tensor.cache_bit) + 1;
    const std::string_view name = tensor.name;
    return set ^ std::hash<std::string_view>()(name.substr(0, name.find_last_not_of("0123456789") + 1));
  }
  // The kernel's counters of this rank are read so seldom that it costs nothing (0.1 ms), and so often that the latest
  // two looks lie within the steps in which a rank is found to be late.
  void look(CoarseClock::time_point at) {
    next_steps_ = watch_.steps() + observe::StragglerWatch::kFewest / 2;
    next_look_ = at + kLook;
    before_ = std::exchange(latest_, read());
    look_at_links();
  }
  // Segments that are lost make all ranks wait, and none is the last.
  void look_at_links() {
    const auto link = observe::worst_link(before_.links, latest_.links, latest_.at - before_.at);
    const bool loses = link.lost >= observe::kMuchLost && link.busy >= observe::StragglerWatch::kShare;
    lossy_looks_ = loses ? lossy_looks_ + 1 : 0;
    if (lossy_looks_ != 2) return;
    RODA_LOG(warning, "Data come late: {}, and has some on the way {} % of the time.", link.words, link.busy / 10);
  }

  static constexpr std::chrono::nanoseconds kLook = std::chrono::milliseconds(400);

  observe::StragglerWatch watch_;
  std::int64_t idle_since_ = 0;  // 0: not idle
  std::uint64_t first_ = 0;      // the first that was submitted after a wait
  std::uint64_t submitted_ = 0;  // since a wait
  bool has_steps_ = false;
  observe::RankLoad before_, latest_;
  int lossy_looks_ = 0;           // in a row
  std::uint64_t next_steps_ = 0;  // there is a next look after so many steps, and not before that time
  CoarseClock::time_point next_look_{};
  std::atomic<std::int64_t> collected_{0};
  mutable Mutex mutex_;
  negotiate::Lateness told_ RODA_GUARDED_BY(mutex_);
  std::uint64_t heard_ RODA_GUARDED_BY(mutex_) = 0;
};

}  // namespace roda::engine

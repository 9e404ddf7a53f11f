// Who holds the engine, and what it sleeps on. The state machine has one owner at a time: normally the engine's own
// thread, but a thread that waits for a result takes over while it waits, because handing work to a sleeping thread
// costs tens of microseconds.
//
// Threads: any. What only the holder may touch says so (RODA_GUARDED_BY, RODA_REQUIRES).
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "plugins/base/mutex.h"
#include "plugins/base/status.h"
#include "plugins/base/unique_fd.h"

namespace roda::engine {

class RODA_CAPABILITY("baton") Baton {
 public:
  // Takes the baton if it is free.
  bool try_take() RODA_TRY_ACQUIRE(true) {
    bool expected = false;
    return !held_.load(std::memory_order_seq_cst) &&
           held_.compare_exchange_strong(expected, true, std::memory_order_seq_cst, std::memory_order_relaxed);
  }

  // Gives it back and wakes whoever waits for it or for news.
  void drop() RODA_RELEASE() {
    held_.store(false, std::memory_order_seq_cst);
    pulse();
  }

  // The holder: from before its last look for news until it is awake again.
  void sleeps(bool is_so) RODA_REQUIRES(this) { holder_sleeps_.store(is_so, std::memory_order_seq_cst); }
  bool holder_sleeps() const { return holder_sleeps_.load(std::memory_order_seq_cst); }

  // The holder: it begins its next turn.
  void begin_turn() RODA_REQUIRES(this) {
    turns_.store(turns_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  }
  // The number of the turn that a holder who is awake is in; nothing: there is no such holder. Any thread.
  std::optional<std::uint64_t> turn_under_way() const {
    if (!held_.load(std::memory_order_seq_cst) || holder_sleeps()) return std::nullopt;
    return turns_.load(std::memory_order_relaxed);
  }

  // For what the analysis can't follow: what others call back, and lambdas. The caller holds it.
  void assert_held() const RODA_LOCKS(assert_capability(this)) {}

  // --- for threads that could not take it ---
  // A thread that counts itself in asks the engine's own thread to let go of the baton.
  void want() { wanting_.fetch_add(1, std::memory_order_seq_cst); }
  void unwant() { wanting_.fetch_sub(1, std::memory_order_seq_cst); }
  bool wanted() const { return wanting_.load(std::memory_order_seq_cst) != 0; }

  // News: the baton was dropped, or something ended that a thread may wait for. Read the pulse, check what you wait
  // for, then wait for the pulse to change; -1: without a limit. It may return early.
  std::uint32_t read_pulse() const { return pulse_.load(std::memory_order_seq_cst); }
  void wait_pulse(std::uint32_t seen, int limit_ms);
  void pulse() {
    pulse_.fetch_add(1, std::memory_order_seq_cst);
    if (sleepers_.load(std::memory_order_seq_cst) != 0) wake_sleepers();
  }

 private:
  void wake_sleepers();

  alignas(64) std::atomic<bool> held_{false};
  std::atomic<bool> holder_sleeps_{false};
  std::atomic<std::uint64_t> turns_{0};
  alignas(64) std::atomic<std::uint32_t> wanting_{0};
  std::atomic<std::uint32_t> pulse_{0};
  std::atomic<std::uint32_t> sleepers_{0};
};

// What the engine sleeps on. Its own thread and a waiting thread that holds the baton sleep on descriptors of their
// own: each must see what wakes it. Both are woken by what rings, not by what has rung (edge-triggered): a bell of a
// transport that is not armed, since nothing moves there, wakes once. The engine's thread hears the transports' only
// where it listens, or each message that a waiting thread deals with would wake it too.
class Bells {
 public:
  Bells() = default;  // rings nothing until it is opened
  static Status open(Bells* bells);

  // --- any thread ---
  // There is work and nobody else does it. What was rung and not heard yet rings no second time.
  void wake_engine() const {
    if (!is_called_->exchange(true, std::memory_order_seq_cst)) ring(engine_wake_);
  }
  // The engine's thread is on its way: after this it looks for what was asked for before.
  bool is_engine_called() const { return is_called_->load(std::memory_order_seq_cst); }
  void wake_holder() const { ring(holder_wake_); }  // a submission while a waiting thread sleeps with the baton

  // --- the holder of the baton ---
  // The descriptor wakes both from now on. Negative: nothing.
  Status watch(int fd);
  // A transport's: the engine's thread is woken once for each time that it listens.
  Status watch_transport(int fd);
  // The engine's thread, when it has armed the transports.
  void listen() const;

  // Until something rings, at most that long; negative: for ever. True when something rang.
  bool sleep_as_engine(int timeout_ms) const;
  bool sleep_as_holder(int timeout_ms) const;

 private:
  static void ring(const UniqueFd& eventfd);
  Status watch(int fd, std::uint32_t engine_events);
  // *called: somebody woke it.
  static bool wait(const UniqueFd& poll, const UniqueFd& wake, int timeout_ms, bool* called);

  UniqueFd engine_poll_, engine_wake_;
  std::unique_ptr<std::atomic<bool>> is_called_ = std::make_unique<std::atomic<bool>>(false);  // and has not heard it
  UniqueFd holder_poll_, holder_wake_;
  std::vector<int> transports_;
};

}  // namespace roda::engine

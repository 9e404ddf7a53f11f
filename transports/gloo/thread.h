// Threads of ours and of Gloo.
#pragma once

#include <sched.h>
#include <signal.h>
#include <time.h>

#include "plugins/base/helper_thread.h"

namespace roda::gloo {

// While it lives, a write to a connection whose peer is gone raises no signal on this thread, which is the user's.
class PipeSignalHeld {
 public:
  PipeSignalHeld() {
    sigemptyset(&pipe_);
    sigaddset(&pipe_, SIGPIPE);
    pthread_sigmask(SIG_BLOCK, &pipe_, &before_);
  }
  ~PipeSignalHeld() {
    if (sigismember(&before_, SIGPIPE) == 1) return;
    const timespec now{};
    if (may_be_pending_) sigtimedwait(&pipe_, nullptr, &now);
    pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  }
  // Everything was written: saves looking for the signal.
  void all_written() { may_be_pending_ = false; }
  PipeSignalHeld(const PipeSignalHeld&) = delete;
  PipeSignalHeld& operator=(const PipeSignalHeld&) = delete;

 private:
  sigset_t pipe_;
  sigset_t before_;
  bool may_be_pending_ = true;
};

// While it lives, threads that this one starts do not preempt others by waking up. Gloo's loop thread would otherwise
// push aside the thread that is just writing to a pair, find the pair's lock taken, and spin on it for a whole time
// slice: with as many ranks as cores a small allreduce took milliseconds.
class WakesPolitely {
 public:
  WakesPolitely() : changed_(sched_getscheduler(0) == SCHED_OTHER && set(SCHED_BATCH)) {}
  ~WakesPolitely() {
    if (changed_) set(SCHED_OTHER);
  }
  WakesPolitely(const WakesPolitely&) = delete;
  WakesPolitely& operator=(const WakesPolitely&) = delete;

 private:
  static bool set(int policy) {
    const sched_param none{};
    return sched_setscheduler(0, policy, &none) == 0;
  }
  bool changed_;
};

}  // namespace roda::gloo

// Threads of ours and of Gloo.
#pragma once

#include <sched.h>

#include "plugins/base/helper_thread.h"

namespace roda::gloo {

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

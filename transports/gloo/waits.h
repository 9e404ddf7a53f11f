// The buffers that threads are waiting on, so that the waits can be ended from outside.
//
// Tearing down a pair tells the buffers in its queues, but not one whose write fails while Gloo's own loop is starting
// it: whoever waits on that would wait out its whole limit. Aborting the wait itself always works.
#pragma once

#include <gloo/transport/unbound_buffer.h>

#include <algorithm>
#include <stdexcept>
#include <vector>

#include "plugins/base/mutex.h"

namespace roda::gloo {

// Thread-safe.
class Waits {
 public:
  // A buffer that may be waited on while this lives. The buffer outlives it.
  class Guard {
   public:
    Guard(Waits& waits, ::gloo::transport::UnboundBuffer* buffer) : waits_(waits), buffer_(buffer) {
      const MutexLock lock(waits_.mutex_);
      if (waits_.given_up_) throw std::runtime_error("the connection was given up");
      waits_.buffers_.push_back(buffer);
    }
    ~Guard() {
      const MutexLock lock(waits_.mutex_);
      std::erase(waits_.buffers_, buffer_);
    }
    Guard(const Guard&) = delete;
    Guard& operator=(const Guard&) = delete;

   private:
    Waits& waits_;
    ::gloo::transport::UnboundBuffer* buffer_;
  };

  // Ends all waits that have begun, and refuses new buffers. False: who waited may wait again, on the same buffer, for
  // a send or a receive that nothing ends: Gloo's abort is for one wait, and its collectives go on after it.
  bool give_up() {
    const MutexLock lock(mutex_);
    given_up_ = true;
    for (::gloo::transport::UnboundBuffer* buffer : buffers_) {
      buffer->abortWaitSend();
      buffer->abortWaitRecv();
    }
    return buffers_.empty();
  }

 private:
  Mutex mutex_;
  bool given_up_ RODA_GUARDED_BY(mutex_) = false;
  std::vector<::gloo::transport::UnboundBuffer*> buffers_ RODA_GUARDED_BY(mutex_);
};

}  // namespace roda::gloo

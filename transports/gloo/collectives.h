// One Gloo collective, run to its end on the calling thread.
#pragma once

#include <gloo/context.h>
#include <gloo/transport/unbound_buffer.h>
#include <roda/sdk/collective.hpp>
#include <roda/sdk/request_table.hpp>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <stdexcept>
#include <vector>

#include "plugins/base/mutex.h"

namespace roda::gloo {

// The buffers that threads are waiting on, so that the waits can be ended from outside.
//
// Tearing down a pair tells the buffers in its queues, but not one whose write fails while Gloo's own loop is starting
// it: whoever waits on that would wait out its whole limit. Aborting the wait itself always works.
//
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

// Reduce and reduce-scatter are not offered: Gloo's take typed functions without a state and only halving-doubling, so
// a schedule of ours over its messages serves better.
inline bool is_supported(int collective, int dtype, int op) {
  return collective != RODA_REDUCE && collective != RODA_REDUCESCATTER && sdk::is_plain(collective, dtype, op);
}

// Throws what Gloo throws. The range of memory it reads and writes is no longer touched when it returns or throws.
// After `waits` were given up it may return as if all were well: ask before believing it.
void run(const std::shared_ptr<::gloo::Context>& context, const roda_collective_args& what, const roda_host* host,
         Waits* waits);

using Clock = std::chrono::steady_clock;

// One pending operation of a group: a message or a collective. A helper thread reads a collective's; the rest is for
// the caller's thread.
struct Request : sdk::PendingRequest, sdk::KeptCollective {
  bool is_message() const { return peer >= 0; }
  // True when the request of group rank `rank` reads or writes a part of the range.
  bool touches(const void* base, std::size_t length, int rank, int size) const {
    if (is_message()) return sdk::overlaps(data, bytes, base, length);
    const std::size_t width = roda_dtype_size(args.dtype);
    const auto [input, output] = sdk::elements_of(args, rank, size);
    return sdk::overlaps(args.input, input * width, base, length) ||
           sdk::overlaps(args.output, output * width, base, length);
  }

  int peer = -1;  // of a message; -1: a collective, of which keep() says more
  Clock::time_point started = Clock::now();
};

}  // namespace roda::gloo

// One Gloo collective, run to its end on the calling thread.
#pragma once

#include <gloo/context.h>
#include <gloo/transport/unbound_buffer.h>
#include <roda/abi/transport.h>
#include <roda/sdk/error.hpp>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <numeric>
#include <stdexcept>
#include <string>
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

inline std::size_t sum(const std::vector<std::size_t>& counts) {
  return std::accumulate(counts.begin(), counts.end(), std::size_t{0});
}

// A copy of what collective_start was given; vectors keep their memory between uses.
struct Collective {
  int collective = RODA_BARRIER;
  int dtype = RODA_UINT8;
  int op = RODA_SUM;
  int root = 0;
  const void* input = nullptr;
  void* output = nullptr;
  std::size_t count = 0;
  std::vector<std::size_t> send_counts;
  std::vector<std::size_t> recv_counts;
  std::uint32_t tag = 0;

  void assign(const roda_collective_args& args, int size);
};

// Every dtype; sum, min, max and product. Reduce-scatter is not offered: Gloo's takes typed functions without a state
// and only halving-doubling, so a schedule of ours over its messages serves better.
bool is_supported(int collective, int dtype, int op);

// True when there is nothing to talk about: no elements, or a group of one (whose data is copied here and now).
bool is_trivial(const Collective& what, int size);

// Throws what Gloo throws. The range of memory it reads and writes is no longer touched when it returns or throws.
// After `waits` were given up it may return as if all were well: ask before believing it.
void run(const std::shared_ptr<::gloo::Context>& context, const Collective& what, const roda_host* host, Waits* waits);

// One pending operation of a group: a message or a collective.
using Clock = std::chrono::steady_clock;

// Filled by the caller, ended once, by the caller (messages) or a helper thread (collectives), and read by the caller
// after is_done(). A helper does not touch it any more once it called end().
class Request {
 public:
  void start_message(int peer, std::uint64_t tag, void* data, std::size_t bytes) {
    restart();
    peer_ = peer;
    tag_ = tag;
    data_ = data;
    bytes_ = bytes;
  }
  // To be filled in.
  Collective& start_collective() {
    restart();
    peer_ = -1;
    return collective_;
  }

  bool is_message() const { return peer_ >= 0; }
  int peer() const { return peer_; }
  std::uint64_t tag() const { return tag_; }
  void* data() const { return data_; }
  std::size_t bytes() const { return bytes_; }
  Collective& collective() { return collective_; }
  Clock::time_point started() const { return started_; }
  // True when the request of group rank `rank` reads or writes a part of the range.
  bool touches(const void* base, std::size_t bytes, int rank) const {
    if (is_message()) return sdk::overlaps(data_, bytes_, base, bytes);
    const std::size_t width = roda_dtype_size(collective_.dtype);
    std::size_t input = collective_.count, output = collective_.count;
    if (collective_.collective == RODA_BARRIER) return false;
    if (collective_.collective == RODA_ALLGATHER || collective_.collective == RODA_ALLTOALL) {
      output = sum(collective_.recv_counts);
      input = collective_.collective == RODA_ALLTOALL ? sum(collective_.send_counts)
                                                      : collective_.recv_counts[static_cast<std::size_t>(rank)];
    }
    return sdk::overlaps(collective_.input, input * width, base, bytes) ||
           sdk::overlaps(collective_.output, output * width, base, bytes);
  }

  bool is_done() const { return done_.load(std::memory_order_acquire); }
  void end() { done_.store(true, std::memory_order_release); }
  void end(const sdk::Failure& failure) {
    code_ = failure.code();
    rank_ = failure.rank();
    message_ = failure.what();
    end();
  }
  // How it ended; the code is RODA_OK when it went well.
  sdk::Failure result() const { return {code_, code_ == RODA_OK ? std::string() : message_, rank_}; }

 private:
  void restart() {
    done_.store(false, std::memory_order_relaxed);
    code_ = RODA_OK;
    started_ = Clock::now();
  }

  int peer_ = -1;
  std::uint64_t tag_ = 0;
  void* data_ = nullptr;
  std::size_t bytes_ = 0;
  Collective collective_;
  Clock::time_point started_;
  std::atomic<bool> done_{true};
  int code_ = RODA_OK;
  int rank_ = -1;
  std::string message_;
};

}  // namespace roda::gloo

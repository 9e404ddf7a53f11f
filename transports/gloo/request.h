// One pending operation of a group: a message or a collective.
#pragma once

#include <roda/sdk/error.hpp>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <string>

#include "transports/gloo/collectives.h"

namespace roda::gloo {

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
  bool touches(const void* base, std::size_t bytes, int rank) const;

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

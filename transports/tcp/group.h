// An ordered set of ranks: forming it, its peers, and how it ends. Messages are in messages.h.
//
// Threads: as the ABI says, one at a time; abort() any. Throws sdk::Failure where it doesn't return a code.
#pragma once

#include <roda/abi/transport.h>
#include <roda/sdk/error.hpp>

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "transports/tcp/forming.h"
#include "transports/tcp/messages.h"
#include "transports/tcp/peer.h"

namespace roda::tcp_transport {

class Context;

class Group {
 public:
  using Request = tcp_transport::Request;

  Group(Context& context, const roda_group_desc& desc);
  ~Group();
  Group(const Group&) = delete;
  Group& operator=(const Group&) = delete;

  // --- the entries of the ABI ---
  // True once formed; throws the cause of a failed forming, or later of the abort.
  bool test();
  // Any thread. The engine acts on it at its next call.
  void abort(const sdk::Failure& cause);
  bool is_quiet(const void* base, std::size_t bytes);
  std::int32_t send(int peer, std::uint64_t tag, const void* data, std::size_t bytes, const roda_memory*,
                    Request** request) {
    return messages_.send(admit(peer), tag, data, bytes, request);
  }
  std::int32_t receive(int peer, std::uint64_t tag, void* data, std::size_t bytes, const roda_memory*,
                       Request** request) {
    return messages_.receive(admit(peer), tag, data, bytes, request);
  }
  std::int32_t test(Request* request) {
    if (is_broken()) act_on_abort();  // ends the request
    return messages_.test(request);
  }

  // --- the context's ---
  int progress();
  bool has_news() const;
  // Somebody waits for something that has a time limit.
  bool watches_the_clock() const;

  // abort(), and act on it now.
  void fail(const sdk::Failure& cause);

  // --- errors, in words ---
  // "rank 3 (group world, 10.0.0.2:4711)", with the world rank.
  std::string describe(const Peer& peer) const;
  sdk::Failure lost(const Peer& peer) const;
  sdk::Failure nonsense(const Peer& peer) const;
  sdk::Failure told_to_abort(const Peer& peer, const Header& header) const;

  std::uint64_t timeout_ns() const { return timeout_ns_; }

 private:
  bool is_broken() const { return is_broken_.load(std::memory_order_acquire); }
  // What every operation begins with: the group is sound and formed, and the peer another member.
  Peer& admit(int peer) {
    if (is_broken() || !is_formed_ || peer < 0 || peer >= size_ || peer == rank_) refuse(peer);
    return peers_[static_cast<std::size_t>(peer)];
  }
  [[noreturn]] void refuse(int peer);
  void check_deadline() const;
  void adopt();
  void act_on_abort();
  void say(Peer& peer, const roda_error& cause);
  void leave(Peer& peer);

  Context& context_;
  const int rank_;
  const int size_;
  const std::string name_;
  const std::uint64_t timeout_ns_;
  const std::uint64_t created_ns_;
  std::vector<std::int32_t> world_ranks_;
  std::atomic<bool> is_broken_{false};
  sdk::FirstCause cause_;
  bool has_acted_ = false;  // on the abort
  bool is_formed_ = false;
  std::unique_ptr<Forming> forming_;
  std::vector<Peer> peers_;
  Messages messages_;
};

// CLOCK_MONOTONIC.
std::uint64_t now_ns();

}  // namespace roda::tcp_transport

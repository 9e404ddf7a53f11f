// What a group knows of one other member.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <roda/sdk/matcher.hpp>
#include <string>
#include <vector>

#include "plugins/base/address.h"
#include "plugins/base/hmac.h"
#include "transports/tcp/lane.h"
#include "transports/tcp/request.h"

namespace roda::tcp_transport {

class Group;

// A message that came before its receive.
struct Unexpected {
  std::uint64_t tag = 0;
  std::size_t bytes = 0;
  std::uint64_t announced_by = 0;     // the send's id; 0: the data are here
  std::unique_ptr<std::byte[]> data;  // of a short one
  bool is_complete = false;
  Request* claimed_by = nullptr;  // the receive that waits for the rest of it
};

// A receive that the peer has posted, and that no send of ours has met yet.
struct Ready {
  std::uint64_t tag = 0;
  std::size_t bytes = 0;
  std::uint64_t id = 0;
};

inline constexpr std::size_t kWorthCopying = 8 << 10;

struct Peer {
  Group* group = nullptr;
  int rank = 0;                              // in the group
  int world_rank = 0;                        // for messages
  SocketAddress where;                       // it listens
  std::string address;                       // the same as a text
  Digest key{};                              // that its process is connected to by
  std::size_t lane_count = 0;                // the same at both ends; 0: ourselves
  std::vector<std::unique_ptr<Lane>> lanes;  // from the first use on
  std::string unreachable;                   // why there is no connection
  std::size_t eager_bytes = 0;               // the same at both ends

  // As the receiver.
  sdk::Matcher<Request, Unexpected> receives;
  std::size_t owed = 0;           // of the window, to be given back
  std::size_t own_window = 0;     // that the peer has of us, all of it
  std::size_t granted = 0;        // of that, what the peer may still use
  std::size_t announced = 0;      // of those that came before their receive
  std::size_t long_receives = 0;  // whose data may come at any time, on any lane

  // As the sender.
  sdk::Matcher<Request, Ready> sends;  // announced ones
  std::deque<Request*> streams;        // on their way, in order
  std::size_t window = 0;              // that we have of the peer
  std::size_t window_left = 0;
  std::size_t pending_sends = 0;

  std::size_t expected = 0;     // requests that wait for a frame of the peer
  std::uint64_t bytes_in = 0;   // ever
  std::uint64_t bytes_out = 0;  // ever
  bool has_left = false;        // said so; what it sent before may still come
  bool is_gone = false;         // nothing will come any more
  int error = 0;                // errno of the connection that broke first
  std::string text;             // of its abort

  // Of requests that have all ended.
  void forget_pending() {
    receives.forget_awaited();
    sends.forget_awaited();
    streams.clear();
  }
  // The next frame has probably more payload than is worth a second copy.
  bool expects_data() const {
    return long_receives > 0 || (!receives.awaited().empty() && receives.awaited().front()->bytes > kWorthCopying);
  }
  std::size_t lanes_to_poll() const { return long_receives > 0 ? lanes.size() : 1; }
};

}  // namespace roda::tcp_transport

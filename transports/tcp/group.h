// An ordered set of ranks: forming it, its peers, to whom connections are made when they are needed, and how it ends.
// Messages are in messages.h.
//
// Threads: as the ABI says, one at a time; abort() any. Throws sdk::Failure where it doesn't return a code.
#pragma once

#include <roda/abi/transport.h>
#include <roda/sdk/group_state.hpp>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "plugins/base/unique_fd.h"
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
    act_on_abort();  // ends the request
    return messages_.test(request);
  }

  // --- the context's ---
  int progress() {
    act_on_abort();
    return 0;
  }
  bool has_news() const { return state_.is_broken() && !state_.has_acted(); }
  // Somebody waits for something that has a time limit.
  bool watches_the_clock() const;

  // --- the connector's ---
  const Digest& id() const { return id_; }
  Peer& peer(int rank) { return peers_[static_cast<std::size_t>(rank)]; }
  // Of another member: whether it may connect that lane.
  bool expects_lane(int rank, std::uint32_t lane) const;
  // The connection is made, or can't be.
  void take(Peer& peer, std::uint32_t lane, UniqueFd fd);
  void lose(Peer& peer, const Status& why);

  // abort(), and act on it now.
  void fail(const sdk::Failure& cause);

  // --- errors, in words ---
  // "rank 3 (group world, 10.0.0.2:4711)", with the world rank.
  std::string describe(const Peer& peer) const { return state_.describe(peer.rank, peer.address); }
  sdk::Failure lost(const Peer& peer) const;
  sdk::Failure nonsense(const Peer& peer) const;
  sdk::Failure told_to_abort(const Peer& peer, const Header& header) const;

  const sdk::GroupState& state() const { return state_; }

 private:
  // What every operation begins with: the group is sound and formed, the peer another member, and a connection made or
  // on its way.
  Peer& admit(int rank) {
    if (!state_.works() || !state_.is_peer(rank)) refuse(rank);
    Peer& with = peer(rank);
    if (with.lanes.empty()) connect(with);
    return with;
  }
  void connect(Peer& peer);
  void make_lanes(Peer& peer);
  [[noreturn]] void refuse(int peer);
  void adopt();
  void act_on_abort();
  void say(UniqueFd fd, const sdk::Failure& cause);
  void leave(Peer& peer);

  Context& context_;
  sdk::GroupState state_;
  std::unique_ptr<Forming> forming_;
  Digest id_{};  // known to members alone, equal on all of them
  std::vector<Peer> peers_;
  Messages messages_;
};

}  // namespace roda::tcp_transport

// An ordered set of ranks: forming it, its peers, to whom connections are made when they are needed, and how it ends.
// Messages are in messages.h.
//
// Threads: as the ABI says, one at a time; abort() any. Throws sdk::Failure where it doesn't return a code.
#pragma once

#include <netinet/in.h>
#include <roda/sdk/exchange.hpp>
#include <roda/sdk/group_state.hpp>

#include <algorithm>
#include <cstring>
#include <optional>

#include "transports/tcp/context.h"
#include "transports/tcp/messages.h"
#include "transports/tcp/tcp.h"

namespace roda::tcp_transport {

class Context;

// What every member publishes first.
struct Card {
  std::uint32_t magic = kMagic;
  std::uint32_t version = kWireVersion;
  std::uint32_t lanes = 0;
  std::uint32_t reserved = 0;
  std::uint64_t eager_bytes = 0;
  std::uint64_t window_bytes = 0;
  Digest key{};   // whoever connects proves it
  Digest host{};  // of loopback_identity()
};

// How a group comes together: every member publishes what it is, then where it listens. Connections are made later,
// each by the first message (connector.h).
//
// The exchange is authenticated by the job's secret, so whoever knows a member's key is a member.
//
// One thread at a time. Throws sdk::Failure.
class Forming {
 public:
  // `state`: the group's, which outlives this.
  Forming(Context& context, const roda_group_desc& desc, const sdk::GroupState& state)
      : context_(context),
        generation_(desc.generation),
        state_(state),
        cards_(desc.exchange, desc.rank, desc.size, "tcp.card"),
        addresses_(desc.exchange, desc.rank, desc.size, "tcp.address") {
    Card own;
    own.lanes = static_cast<std::uint32_t>(context.settings().lanes);
    own.eager_bytes = context.settings().eager_bytes;
    own.window_bytes = context.settings().window_bytes;
    own.key = context.connector().key();
    sdk::expect_ok(hmac_sha256(bytes_of("roda host"), {bytes_of(loopback_identity())}, &own.host), "tcp");
    cards_.start(&own, sizeof own);
  }

  // True when everything is known of everybody.
  bool step() {
    if (!id_.has_value()) {
      if (!cards_.test()) return false;
      read_cards();
      listen();
    }
    return addresses_.test();
  }
  Card card(int rank) const { return cards_.value_as<Card>(rank); }
  SocketAddress address(int rank) const {
    const auto published = addresses_.value_as<Published>(rank);
    SocketAddress address;
    address.length = std::min<std::uint32_t>(published.length, sizeof published.address);
    std::memcpy(&address.storage, published.address, address.length);
    return address;
  }
  // Who has all members' keys has made it. Once the cards are there.
  const std::optional<Digest>& id() const { return id_; }
  // Group ranks that have not come yet.
  std::vector<int> missing() const { return id_.has_value() ? addresses_.missing() : cards_.missing(); }

 private:
  static Bytes bytes_of(const std::string& text) {
    return {reinterpret_cast<const std::uint8_t*>(text.data()), text.size()};
  }
  struct Published {  // what every member publishes next
    std::uint32_t length = 0;
    std::uint8_t address[28]{};  // the longer one of IPv4's and IPv6's
  };
  void read_cards() {
    const Digest host = card(state_.rank()).host;
    std::vector<std::uint8_t> keys;
    for (int rank = 0; rank < state_.size(); ++rank) {
      const Card theirs = card(rank);
      if (theirs.magic != kMagic || theirs.version != kWireVersion || theirs.lanes == 0 || theirs.lanes > kMostLanes) {
        throw state_.other_version(rank);
      }
      one_host_ = one_host_ && theirs.host == host;
      keys.insert(keys.end(), theirs.key.begin(), theirs.key.end());
    }
    Digest id;
    const std::string purpose = "roda tcp " + std::to_string(generation_) + " " + state_.name();
    sdk::expect_ok(hmac_sha256(keys, {bytes_of(purpose)}, &id), "tcp");
    explicit_bzero(keys.data(), keys.size());
    id_ = id;
  }
  void listen() {
    const SocketAddress own = context_.connector().listen(one_host_, state_.address());
    Published published;
    static_assert(sizeof published.address >= sizeof(sockaddr_in6));
    published.length = own.length;
    std::memcpy(published.address, &own.storage, std::min<std::size_t>(own.length, sizeof published.address));
    addresses_.start(&published, sizeof published);
  }

  Context& context_;
  const std::uint64_t generation_;
  const sdk::GroupState& state_;
  sdk::Allgather cards_;
  sdk::Allgather addresses_;
  std::optional<Digest> id_;
  bool one_host_ = true;
};

class Group {
 public:
  using Request = tcp_transport::Request;

  Group(Context& context, const roda_group_desc& desc);
  ~Group();

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

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
#include <utility>

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
      : context_(context), generation_(desc.generation), state_(state) {
    Card own;
    own.lanes = static_cast<std::uint32_t>(context.settings().lanes);
    own.eager_bytes = context.settings().eager_bytes;
    own.window_bytes = context.settings().window_bytes;
    own.key = context.connector().key();
    sdk::expect_ok(hmac_sha256(bytes_of("roda host"), {bytes_of(loopback_identity())}, &own.host), "tcp");
    cards_ = state_.gather("tcp.card", &own, sizeof own);
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
    addresses_ = state_.gather("tcp.address", &published, sizeof published);
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

  Group(Context& context, const roda_group_desc& desc)
      : context_(context),
        state_("tcp", desc),
        peers_(static_cast<std::size_t>(state_.size())),
        messages_(context, *this) {
    for (int rank = 0; rank < state_.size(); ++rank) {
      Peer& peer = peers_[static_cast<std::size_t>(rank)];
      peer.group = this;
      peer.rank = rank;
    }
    if (state_.size() == 1) {
      state_.set_formed();
    } else {
      forming_ = std::make_unique<Forming>(context, desc, state_);
    }
    context_.add(this);
  }
  ~Group() {
    if (!is_forked_child()) {
      act_on_abort();
      if (!state_.has_acted()) {
        for (Peer& peer : peers_) leave(peer);
      }
    }
    messages_.end_all({RODA_ERR_ABORTED, state_.text("is gone")});
    context_.connector().forget(*this);
    context_.remove(this);
  }

  // --- the entries of the ABI ---
  // True once formed; throws the cause of a failed forming, or later of the abort.
  bool test() {
    act_on_abort();
    const auto step = [this] {
      const bool is_complete = forming_->step();
      if (forming_->id().has_value()) id_ = *forming_->id();
      if (is_complete) adopt();
      return is_complete;
    };
    return state_.form(
        step, [this] { return state_.late(forming_->missing()); }, [this](const sdk::Failure& why) { fail(why); });
  }
  // Any thread. The engine acts on it at its next call.
  void abort(const sdk::Failure& cause) {
    state_.abort(cause);
    context_.ring();
  }
  bool is_quiet(const void* base, std::size_t bytes) {
    act_on_abort();
    return !messages_.touches(base, bytes);
  }
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
  bool watches_the_clock() const {
    return state_.timeout_ns() > 0 && !state_.has_acted() && (forming_ != nullptr || !messages_.is_idle());
  }

  // --- the connector's ---
  const Digest& id() const { return id_; }
  Peer& peer(int rank) { return peers_[static_cast<std::size_t>(rank)]; }
  // Whether another member may connect that lane.
  bool expects_lane(int rank, std::uint32_t lane) const {
    const Peer& peer = peers_[static_cast<std::size_t>(rank)];
    if (lane >= peer.lane_count) return false;
    return state_.is_broken() || peer.lanes.empty() || (!peer.lanes[lane]->is_open() && !peer.lanes[lane]->is_closed());
  }
  // The connection is made, or can't be.
  void take(Peer& peer, std::uint32_t lane, UniqueFd fd) {
    if (state_.is_broken()) {
      if (lane == 0) say(std::move(fd), state_.cause());
      return;
    }
    if (peer.lanes.empty()) make_lanes(peer);
    peer.lanes[lane]->connect(std::move(fd));
  }
  // Where one lane was made the others tell more.
  void lose(Peer& peer, const Status& why) {
    if (std::any_of(peer.lanes.begin(), peer.lanes.end(),
                    [](const auto& l) { return l->is_open() || l->is_closed(); })) {
      return;
    }
    peer.end.unreachable = why.message();
    for (const auto& lane : peer.lanes) lane->release();
    messages_.peer_gone(peer);
  }

  // abort(), and act on it now.
  void fail(const sdk::Failure& cause) {
    abort(cause);
    act_on_abort();
  }

  // --- errors, in words ---
  // "rank 3 (group world, 10.0.0.2:4711)", with the world rank.
  std::string describe(const Peer& peer) const { return state_.describe(peer.rank, peer.address); }
  sdk::Failure lost(const Peer& peer) const {
    if (!peer.end.unreachable.empty()) {
      return {RODA_ERR_PEER,
              "tcp: no connection to " + describe(peer) + ": " + peer.end.unreachable +
                  ". Its process has ended, or it has left the group, or it can't be reached: on hosts with several "
                  "networks, RODA_TCP_IFACE names the interface to use",
              state_.world_rank(peer.rank)};
    }
    if (peer.end.has_left) return state_.has_left(peer.rank, peer.address);
    return {RODA_ERR_PEER,
            "tcp: the connection to " + describe(peer) + " is lost" +
                (peer.end.error != 0 ? std::string(": ") + std::strerror(peer.end.error) : ", its process has ended") +
                ". What that rank printed last says why",
            state_.world_rank(peer.rank)};
  }
  sdk::Failure nonsense(const Peer& peer) const {
    return state_.fault(RODA_ERR_PEER, peer.rank, "sent a frame that makes no sense; its plugin differs, or is broken",
                        peer.address);
  }
  sdk::Failure told_to_abort(const Peer& peer, const Header& header) const {
    const auto code = static_cast<std::int32_t>(header.a);
    return {code < 0 ? code : static_cast<std::int32_t>(RODA_ERR_PEER), peer.end.text,
            static_cast<std::int32_t>(header.b)};
  }

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
  void connect(Peer& peer) {
    make_lanes(peer);
    context_.connector().connect(*this, peer);
  }
  void make_lanes(Peer& peer) {
    peer.address = peer.where.text();
    for (int lane = 0; lane < static_cast<int>(peer.lane_count); ++lane) {
      peer.lanes.push_back(std::make_unique<Lane>(context_, messages_, peer, lane));
    }
  }
  [[noreturn]] void refuse(int peer) {
    act_on_abort();
    state_.refuse(peer);
  }
  void adopt() {
    const Card own = forming_->card(state_.rank());
    for (Peer& peer : peers_) {
      if (peer.rank == state_.rank()) continue;
      const Card theirs = forming_->card(peer.rank);
      peer.eager_bytes = std::min(own.eager_bytes, theirs.eager_bytes);
      peer.own_window = peer.granted = own.window_bytes;
      peer.window = peer.window_left = theirs.window_bytes;
      peer.lane_count = std::min(own.lanes, theirs.lanes);
      peer.key = theirs.key;
      peer.where = forming_->address(peer.rank);
    }
    forming_.reset();
    context_.connector().reconsider();
  }
  // The engine's part of an abort: ends what is pending, and tells the peers why.
  void act_on_abort() {
    if (!state_.take_abort()) return;
    const sdk::Failure cause = state_.cause();
    forming_.reset();
    context_.connector().forget(*this);
    messages_.end_all(cause);
    for (Peer& peer : peers_) {
      peer.forget_pending();
      // As long as no other frame is half written: its rest is no longer ours to send.
      if (!peer.lanes.empty() && peer.lanes.front()->is_open() && peer.lanes.front()->outbox().at_boundary()) {
        say(peer.lanes.front()->release(), cause);
      }
      for (const auto& lane : peer.lanes) {
        lane->release().reset();
        lane->outbox().clear();
      }
    }
  }
  // The last frame of a connection.
  void say(UniqueFd fd, const sdk::Failure& cause) {
    Header header{.kind = Kind::kAbort, .a = static_cast<std::uint64_t>(cause.code())};
    header.b = static_cast<std::uint64_t>(cause.rank());
    header.length = static_cast<std::uint32_t>(::strnlen(cause.what(), kMostText));
    Outbox last;
    last.push({header, reinterpret_cast<const std::byte*>(cause.what()), nullptr});
    context_.see_off(std::move(fd), last.copy_rest());
  }
  // Nothing is pending; frames that wait only tell the peer what it need not know any more.
  void leave(Peer& peer) {
    for (const auto& lane : peer.lanes) {
      if (!lane->is_open()) continue;
      if (lane->index() == 0) lane->outbox().push({{.kind = Kind::kLeave}, nullptr, nullptr});
      std::vector<std::byte> rest = lane->outbox().copy_rest();
      lane->outbox().clear();
      context_.see_off(lane->release(), std::move(rest));
    }
  }

  Context& context_;
  sdk::GroupState state_;
  std::unique_ptr<Forming> forming_;
  Digest id_{};  // known to members alone, equal on all of them
  std::vector<Peer> peers_;
  Messages messages_;
};

}  // namespace roda::tcp_transport

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

// What every member publishes first, for the first member alone.
struct Card {
  std::uint32_t magic = kMagic;
  std::uint32_t version = kWireVersion;
  Digest host{};  // of loopback_identity()
};

// What the first member finds, for all.
struct Verdict {
  Digest id{};            // the group's, known to its members alone
  std::int32_t odd = -1;  // a member that runs another version of the plugin
  std::uint32_t is_one_host = 0;
};

// What every member publishes next, for those who connect to it.
struct Address {
  Contact contact;
  Digest key{};  // whoever connects proves it
};
inline constexpr const char* kAddressKey = "tcp.address";

// How a group comes together: every member publishes what it is, then where it listens. Connections are made later,
// each by the first message (connector.h), which looks its peer up: nobody is told of all.
//
// The exchange is authenticated by the job's secret, so whoever knows a member's key is a member.
//
// One thread at a time. Throws sdk::Failure.
class Forming {
 public:
  // `state`: the group's, which outlives this.
  Forming(Context& context, const sdk::GroupState& state) : context_(context), state_(state) {
    Card own;
    sdk::expect_ok(hmac_sha256(bytes_of("roda host"), {bytes_of(loopback_identity())}, &own.host), "tcp");
    cards_ = state_.gather("tcp.card", &own, sizeof own);
    cards_.put();
  }

  // True when everybody can be connected to.
  bool step() {
    if (!verdict_.has_value() && !judge()) return false;
    return up_.test();
  }
  // Null until it is known.
  const Digest* id() const { return verdict_.has_value() ? &verdict_->id : nullptr; }
  // Once the group has formed.
  const Contact& own() const { return own_.contact; }
  // Group ranks that have not come yet.
  std::vector<int> missing() const {
    if (verdict_.has_value()) return up_.missing();
    const std::vector<int> silent = cards_.missing();
    return silent.empty() && state_.rank() > 0 ? std::vector<int>{0} : silent;  // whose verdict all wait for
  }

 private:
  bool judge() {
    constexpr const char* kVerdict = "tcp.verdict";
    Verdict verdict;
    if (state_.rank() > 0) {
      if (!state_.get(0, kVerdict, &verdict, sizeof verdict)) return false;
    } else {
      if (!cards_.test()) return false;
      verdict = verdict_on_cards();
      state_.put(kVerdict, &verdict, sizeof verdict);
    }
    if (verdict.odd >= 0 && verdict.odd < state_.size()) throw state_.other_version(verdict.odd);
    listen(verdict.is_one_host != 0);
    verdict_ = verdict;
    return true;
  }
  Verdict verdict_on_cards() const {
    Verdict verdict{.is_one_host = 1};
    sdk::expect_ok(fill_random(verdict.id), "tcp");
    for (int rank = state_.size() - 1; rank >= 0; --rank) {
      const auto theirs = cards_.value_as<Card>(rank);
      if (theirs.magic != kMagic || theirs.version != kWireVersion) verdict.odd = rank;
      if (theirs.host != cards_.value_as<Card>(0).host) verdict.is_one_host = 0;
    }
    return verdict;
  }
  void listen(bool is_one_host) {
    const SocketAddress address = context_.connector().listen(is_one_host, state_.address());
    const Settings& settings = context_.settings();
    own_.contact = {.lanes = static_cast<std::uint32_t>(settings.lanes),
                    .length = address.length,
                    .eager_bytes = settings.eager_bytes,
                    .window_bytes = settings.window_bytes};
    static_assert(sizeof own_.contact.address >= sizeof(sockaddr_in6));
    std::memcpy(own_.contact.address, &address.storage,
                std::min<std::size_t>(address.length, sizeof own_.contact.address));
    own_.key = context_.connector().key();
    state_.put(kAddressKey, &own_, sizeof own_);
    up_ = state_.gather("tcp.up", nullptr, 0);
  }

  Context& context_;
  const sdk::GroupState& state_;
  sdk::Allgather cards_;
  sdk::Allgather up_;
  std::optional<Verdict> verdict_;
  Address own_;
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
      forming_ = std::make_unique<Forming>(context, state_);
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
      if (const Digest* id = forming_->id()) id_ = *id;
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
    Peer* const with = admit(peer);
    return with == nullptr ? int{RODA_AGAIN} : messages_.send(*with, tag, data, bytes, request);
  }
  std::int32_t receive(int peer, std::uint64_t tag, void* data, std::size_t bytes, const roda_memory*,
                       Request** request) {
    Peer* const with = admit(peer);
    return with == nullptr ? int{RODA_AGAIN} : messages_.receive(*with, tag, data, bytes, request);
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
  // An answer to where a peer is rings no bell.
  bool has_news() const { return state_.is_broken() ? !state_.has_acted() : sought_ > 0; }
  // Somebody waits for something that has a time limit.
  bool watches_the_clock() const {
    return state_.timeout_ns() > 0 && !state_.has_acted() && (forming_ != nullptr || !messages_.is_idle());
  }

  // --- the connector's ---
  const Digest& id() const { return id_; }
  Peer& peer(int rank) { return peers_[static_cast<std::size_t>(rank)]; }
  const Contact& own() const { return own_; }
  // Whether another member, who says that of itself, may connect that lane.
  bool expects_lane(int rank, const Contact& contact, std::uint32_t lane) {
    Peer& peer = peers_[static_cast<std::size_t>(rank)];
    if (peer.lanes.empty() && !learn(peer, contact)) return false;
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
  // on its way. Null: where the peer is, is still asked for.
  Peer* admit(int rank) {
    if (!state_.works() || !state_.is_peer(rank)) refuse(rank);
    Peer& with = peer(rank);
    return with.lanes.empty() && !connect(with) ? nullptr : &with;
  }
  bool connect(Peer& peer) {
    Address theirs;
    if (!std::exchange(peer.is_sought, true)) ++sought_;
    if (!find(peer, &theirs)) return false;
    if (!learn(peer, theirs.contact)) fail(state_.other_version(peer.rank));
    state_.throw_if_broken();
    make_lanes(peer);
    context_.connector().connect(*this, peer, Secret(theirs.key));
    return true;
  }
  bool find(Peer& peer, Address* theirs) {
    try {
      if (state_.get(peer.rank, kAddressKey, theirs, sizeof *theirs)) return true;
      if (peer.search.is_over(0, state_.timeout_ns())) {
        throw sdk::Failure(RODA_ERR_TIMEOUT, std::string("the rendezvous does not answer; ") + state_.kRaise);
      }
    } catch (const sdk::Failure& failure) {
      fail({failure.code(), state_.text("can't learn where " + state_.describe(peer.rank) + " is: " + failure.what()),
            failure.rank()});
      state_.throw_if_broken();
    }
    return false;
  }
  // Takes what a peer says of itself. False: it can't be.
  bool learn(Peer& peer, const Contact& theirs) {
    if (theirs.lanes == 0 || theirs.lanes > kMostLanes) return false;
    peer.eager_bytes = std::min<std::uint64_t>(own_.eager_bytes, theirs.eager_bytes);
    peer.own_window = peer.granted = own_.window_bytes;
    peer.window = peer.window_left = theirs.window_bytes;
    peer.lane_count = std::min(own_.lanes, theirs.lanes);
    peer.where = theirs.where();
    return true;
  }
  void make_lanes(Peer& peer) {
    if (std::exchange(peer.is_sought, false)) --sought_;
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
    own_ = forming_->own();
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
  Contact own_;
  int sought_ = 0;  // peers
  std::vector<Peer> peers_;
  Messages messages_;
};

}  // namespace roda::tcp_transport

#include "transports/tcp/group.h"

#include <sys/socket.h>

#include <utility>

#include "transports/tcp/context.h"

namespace roda::tcp_transport {

Group::Group(Context& context, const roda_group_desc& desc)
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
  context_.add(*this);
}

Group::~Group() {
  if (!is_forked_child()) {
    act_on_abort();
    if (!state_.has_acted()) {
      for (Peer& peer : peers_) leave(peer);
    }
  }
  messages_.end_all({RODA_ERR_ABORTED, state_.text("is gone")});
  context_.connector().forget(*this);
  context_.remove(*this);
}

bool Group::test() {
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

void Group::adopt() {
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

void Group::make_lanes(Peer& peer) {
  peer.address = peer.where.text();
  for (int lane = 0; lane < static_cast<int>(peer.lane_count); ++lane) {
    peer.lanes.push_back(std::make_unique<Lane>(context_, messages_, peer, lane));
  }
}

void Group::connect(Peer& peer) {
  make_lanes(peer);
  context_.connector().connect(*this, peer);
}

bool Group::expects_lane(int rank, std::uint32_t lane) const {
  const Peer& peer = peers_[static_cast<std::size_t>(rank)];
  if (lane >= peer.lane_count) return false;
  return state_.is_broken() || peer.lanes.empty() || (!peer.lanes[lane]->is_open() && !peer.lanes[lane]->is_closed());
}

void Group::take(Peer& peer, std::uint32_t lane, UniqueFd fd) {
  if (state_.is_broken()) {
    if (lane == 0) say(std::move(fd), state_.cause());
    return;
  }
  if (peer.lanes.empty()) make_lanes(peer);
  peer.lanes[lane]->connect(std::move(fd));
}

// Where one lane was made the others tell more.
void Group::lose(Peer& peer, const Status& why) {
  if (std::any_of(peer.lanes.begin(), peer.lanes.end(), [](const auto& l) { return l->is_open() || l->is_closed(); })) {
    return;
  }
  peer.end.unreachable = why.message();
  for (const auto& lane : peer.lanes) lane->release();
  messages_.peer_gone(peer);
}

void Group::refuse(int peer) {
  act_on_abort();
  state_.refuse(peer);
}

void Group::abort(const sdk::Failure& cause) {
  state_.abort(cause);
  context_.ring();
}

void Group::fail(const sdk::Failure& cause) {
  abort(cause);
  act_on_abort();
}

// The engine's part of an abort: ends what is pending, and tells the peers why.
void Group::act_on_abort() {
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
void Group::say(UniqueFd fd, const sdk::Failure& cause) {
  Header header{.kind = Kind::kAbort, .a = static_cast<std::uint64_t>(cause.code())};
  header.b = static_cast<std::uint64_t>(cause.rank());
  header.length = static_cast<std::uint32_t>(::strnlen(cause.what(), kMostText));
  Outbox last;
  last.push({header, reinterpret_cast<const std::byte*>(cause.what()), nullptr});
  context_.see_off(std::move(fd), last.copy_rest());
}

// Nothing is pending; frames that wait only tell the peer what it need not know any more.
void Group::leave(Peer& peer) {
  for (const auto& lane : peer.lanes) {
    if (!lane->is_open()) continue;
    if (lane->index() == 0) lane->outbox().push({{.kind = Kind::kLeave}, nullptr, nullptr});
    std::vector<std::byte> rest = lane->outbox().copy_rest();
    lane->outbox().clear();
    context_.see_off(lane->release(), std::move(rest));
  }
}

bool Group::is_quiet(const void* base, std::size_t bytes) {
  act_on_abort();
  return !messages_.touches(base, bytes);
}

bool Group::watches_the_clock() const {
  return state_.timeout_ns() > 0 && !state_.has_acted() && (forming_ != nullptr || !messages_.is_idle());
}

sdk::Failure Group::lost(const Peer& peer) const {
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

sdk::Failure Group::nonsense(const Peer& peer) const {
  return state_.fault(RODA_ERR_PEER, peer.rank, "sent a frame that makes no sense; its plugin differs, or is broken",
                      peer.address);
}

sdk::Failure Group::told_to_abort(const Peer& peer, const Header& header) const {
  const auto code = static_cast<std::int32_t>(header.a);
  return {code < 0 ? code : static_cast<std::int32_t>(RODA_ERR_PEER), peer.end.text,
          static_cast<std::int32_t>(header.b)};
}

}  // namespace roda::tcp_transport

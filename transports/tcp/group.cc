#include "transports/tcp/group.h"

#include <sys/socket.h>
#include <time.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "plugins/base/fork_guard.h"
#include "transports/tcp/context.h"

namespace roda::tcp_transport {

std::uint64_t now_ns() {
  timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<std::uint64_t>(now.tv_sec) * 1'000'000'000u + static_cast<std::uint64_t>(now.tv_nsec);
}

Group::Group(Context& context, const roda_group_desc& desc)
    : context_(context),
      rank_(desc.rank),
      size_(desc.size),
      name_(desc.name),
      timeout_ns_(desc.timeout_ns),
      created_ns_(now_ns()),
      world_ranks_(desc.world_ranks, desc.world_ranks + desc.size),
      peers_(static_cast<std::size_t>(desc.size)),
      messages_(context, *this) {
  for (int rank = 0; rank < size_; ++rank) {
    Peer& peer = peers_[static_cast<std::size_t>(rank)];
    peer.group = this;
    peer.rank = rank;
    peer.world_rank = world_ranks_[static_cast<std::size_t>(rank)];
  }
  if (size_ == 1) {
    is_formed_ = true;
  } else {
    forming_ = std::make_unique<Forming>(context, desc);
  }
  context_.add(*this);
}

Group::~Group() {
  if (!is_forked_child()) {
    if (is_broken()) act_on_abort();
    if (!has_acted_) {
      for (Peer& peer : peers_) leave(peer);
    }
  }
  messages_.end_all(Status::aborted("the group is gone"));
  forming_.reset();
  context_.remove(*this);
}

bool Group::test() {
  if (is_broken()) act_on_abort();
  cause_.throw_if_set();
  if (is_formed_) return true;
  try {
    if (forming_->step()) {
      adopt();
    } else {
      check_deadline();
    }
  } catch (const sdk::Failure& failure) {
    fail(failure);
    cause_.throw_if_set();
  }
  return is_formed_;
}

void Group::adopt() {
  const Card own = forming_->card(rank_);
  for (Peer& peer : peers_) {
    if (peer.rank == rank_) continue;
    const Card theirs = forming_->card(peer.rank);
    peer.eager_bytes = std::min(own.eager_bytes, theirs.eager_bytes);
    peer.own_window = peer.granted = own.window_bytes;
    peer.window = peer.window_left = theirs.window_bytes;
    for (std::uint32_t lane = 0; lane < forming_->lanes_with(peer.rank); ++lane) {
      UniqueFd fd = forming_->take(peer.rank, lane, &peer.address);
      peer.lanes.push_back(std::make_unique<Lane>(context_, messages_, peer, static_cast<int>(lane), std::move(fd)));
    }
  }
  forming_.reset();
  is_formed_ = true;
}

void Group::check_deadline() const {
  if (timeout_ns_ == 0 || now_ns() - created_ns_ < timeout_ns_) return;
  const std::vector<int> missing = forming_->missing();
  std::string names;
  for (const int rank : missing) names += " " + std::to_string(world_ranks_[static_cast<std::size_t>(rank)]);
  throw sdk::Failure(RODA_ERR_TIMEOUT,
                     "tcp: group " + name_ + " did not form in " + std::to_string(timeout_ns_ / 1'000'000) +
                         " ms; missing: rank" + (names.empty() ? " unknown" : names) +
                         ". If the ranks are merely slow, raise HOROVOD_GLOO_TIMEOUT_SECONDS",
                     missing.empty() ? -1 : world_ranks_[static_cast<std::size_t>(missing.front())]);
}

void Group::refuse(int peer) {
  if (is_broken()) act_on_abort();
  cause_.throw_if_set();
  if (!is_formed_) throw sdk::Failure(RODA_ERR_PRECONDITION, "tcp: group " + name_ + " is still forming");
  throw sdk::Failure(RODA_ERR_INVALID, "tcp: no other member " + std::to_string(peer) + " in group " + name_);
}

void Group::abort(const sdk::Failure& cause) {
  cause_.set(cause);
  is_broken_.store(true, std::memory_order_release);
  context_.ring();
}

void Group::fail(const sdk::Failure& cause) {
  abort(cause);
  act_on_abort();
}

// The engine's part of an abort: ends what is pending, and tells the peers why.
void Group::act_on_abort() {
  if (std::exchange(has_acted_, true)) return;
  roda_error cause{};
  cause.struct_size = sizeof cause;
  cause_.fill(&cause);
  forming_.reset();
  messages_.end_all(Status(cause.code, cause.message, cause.rank));
  for (Peer& peer : peers_) {
    peer.posted.clear();
    peer.waiting.clear();
    peer.streams.clear();
    say(peer, cause);
    for (const auto& lane : peer.lanes) {
      lane->release().reset();
      lane->outbox().clear();
    }
  }
}

// As long as no other frame is half written: its rest is no longer ours to send.
void Group::say(Peer& peer, const roda_error& cause) {
  if (peer.lanes.empty() || !peer.lanes.front()->is_open() || !peer.lanes.front()->outbox().at_boundary()) return;
  Lane& lane = *peer.lanes.front();
  Header header{.kind = Kind::kAbort, .a = static_cast<std::uint64_t>(cause.code)};
  header.b = static_cast<std::uint64_t>(cause.rank);
  header.length = static_cast<std::uint32_t>(::strnlen(cause.message, kMostText));
  lane.outbox().clear();
  lane.outbox().push({header, reinterpret_cast<const std::byte*>(cause.message), nullptr});
  std::vector<std::byte> text = lane.outbox().copy_rest();
  context_.see_off(lane.release(), std::move(text));
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
  if (is_broken()) act_on_abort();
  return !messages_.touches(base, bytes);
}

int Group::progress() {
  if (is_broken()) {
    act_on_abort();
    return 0;
  }
  if (forming_ == nullptr) return 0;
  try {
    return forming_->progress();
  } catch (const sdk::Failure& failure) {
    fail(failure);
    return 1;
  }
}

bool Group::has_news() const {
  if (is_broken()) return !has_acted_;
  return forming_ != nullptr && forming_->has_news();
}

bool Group::watches_the_clock() const {
  return timeout_ns_ > 0 && !has_acted_ && (forming_ != nullptr || !messages_.is_idle());
}

std::string Group::describe(const Peer& peer) const {
  return "rank " + std::to_string(peer.world_rank) + " (group " + name_ + ", " + peer.address + ")";
}

sdk::Failure Group::lost(const Peer& peer) const {
  if (peer.has_left) return {RODA_ERR_PEER, "tcp: " + describe(peer) + " has left the group", peer.world_rank};
  return {RODA_ERR_PEER,
          "tcp: the connection to " + describe(peer) + " is lost" +
              (peer.error != 0 ? std::string(": ") + std::strerror(peer.error) : ", its process has ended") +
              ". What that rank printed last says why",
          peer.world_rank};
}

sdk::Failure Group::nonsense(const Peer& peer) const {
  return {RODA_ERR_PEER,
          "tcp: " + describe(peer) + " sent a frame that makes no sense; its plugin differs, or is broken",
          peer.world_rank};
}

sdk::Failure Group::told_to_abort(const Peer& peer, const Header& header) const {
  const auto code = static_cast<std::int32_t>(header.a);
  return {code < 0 ? code : static_cast<std::int32_t>(RODA_ERR_PEER), peer.text, static_cast<std::int32_t>(header.b)};
}

}  // namespace roda::tcp_transport

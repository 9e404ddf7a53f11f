// How a group forms: who is where, the workers' addresses, endpoints, and a hello through each of them.
#include <sys/stat.h>
#include <time.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <fstream>

#include "plugins/base/foreign_sockets.h"
#include "transports/ucx/errors.h"
#include "transports/ucx/group.h"
#include "transports/ucx/lanes.h"
#include "transports/ucx/sockets.h"

namespace roda::ucx {
namespace {

struct Identity {
  char host[96];
  char version[32];
};

// Equal for processes that reach each other over loopback: same boot, same network namespace.
Identity own_identity() {
  Identity identity{};
  std::string boot;
  std::getline(std::ifstream("/proc/sys/kernel/random/boot_id"), boot);
  struct stat network {};
  if (::stat("/proc/self/ns/net", &network) != 0) network.st_ino = 0;
  std::snprintf(identity.host, sizeof identity.host, "%s/%llu", boot.c_str(),
                static_cast<unsigned long long>(network.st_ino));
  std::snprintf(identity.version, sizeof identity.version, "%s", library_version().c_str());
  return identity;
}

}  // namespace

std::uint64_t now_ns() {
  timespec time{};
  ::clock_gettime(CLOCK_MONOTONIC, &time);
  return static_cast<std::uint64_t>(time.tv_sec) * 1'000'000'000 + static_cast<std::uint64_t>(time.tv_nsec);
}

Group::Group(Context& context, const roda_group_desc& desc)
    : context_(context),
      name_(desc.name),
      rank_(desc.rank),
      size_(desc.size),
      timeout_ns_(desc.timeout_ns),
      exchange_(desc.exchange),
      tags_(desc.size, desc.generation),
      created_ns_(now_ns()),
      peers_(static_cast<std::size_t>(desc.size)) {
  for (int i = 0; i < size_; ++i) {
    Peer& peer = peers_[static_cast<std::size_t>(i)];
    peer.group = this;
    peer.rank = i;
    peer.world_rank = desc.world_ranks[i];
  }
  const Identity identity = own_identity();
  gather("ucx.identity", &identity, sizeof identity);
  context_.add(this);
}

void Group::gather(const char* key, const void* value, std::size_t bytes) {
  gather_ = sdk::Allgather(exchange_, rank_, size_, key);
  gather_.start(value, bytes);
}

bool Group::test() {
  if (is_broken()) act_on_abort();
  cause_.throw_if_set();
  if (step_ == Step::kFormed) return true;
  check_deadline();
  try {
    return advance();
  } catch (const sdk::Failure& failure) {
    abort(failure);
    throw;
  }
}

bool Group::advance() {
  if (step_ != Step::kHellos && !gather_.test()) return false;
  switch (step_) {
    case Step::kIdentities: {
      check_identities();
      const std::uint64_t length = address_.size();
      gather("ucx.length", &length, sizeof length);
      step_ = size_ == 1 ? Step::kFormed : Step::kLengths;
      break;
    }
    case Step::kLengths: {
      std::uint64_t longest = 0, length = 0;
      for (int i = 0; i < size_; ++i) {
        std::memcpy(&length, gather_.value(i), sizeof length);
        longest = std::max(longest, length);
      }
      address_.resize(longest);
      gather("ucx.address", address_.data(), longest);
      step_ = Step::kAddresses;
      break;
    }
    case Step::kAddresses:
      for_each_peer([this](Peer& peer) { connect(peer, gather_.value(peer.rank)); });
      step_ = Step::kHellos;
      break;
    case Step::kHellos:
      if (greet()) step_ = Step::kFormed;
      break;
    case Step::kFormed:
      break;
  }
  return step_ == Step::kFormed;
}

// Groups of one host use loopback; different versions of UCX need not understand each other.
void Group::check_identities() {
  Reach reach = Reach::kHost;
  Identity own{}, other{};
  std::memcpy(&own, gather_.value(rank_), sizeof own);
  for (const Peer& peer : peers_) {
    std::memcpy(&other, gather_.value(peer.rank), sizeof other);
    other.version[sizeof other.version - 1] = 0;
    if (std::memcmp(own.host, other.host, sizeof own.host) != 0) reach = Reach::kNetwork;
    if (std::strcmp(own.version, other.version) == 0) continue;
    throw sdk::Failure(RODA_ERR_PRECONDITION,
                       "ucx: " + describe(peer) + " has UCX " + other.version + ", rank " +
                           std::to_string(peers_[static_cast<std::size_t>(rank_)].world_rank) + " has " + own.version +
                           ": install the same version on all hosts",
                       peer.world_rank);
  }
  library_ = &context_.library(reach, size_);
  memories_ = std::make_unique<Memories>(*library_);
  if (size_ == 1) return;
  worker_ = std::make_unique<Worker>(*library_);
  context_.watch(worker_->event_fd());
  ucp_am_handler_param_t handler{};
  handler.field_mask = UCP_AM_HANDLER_PARAM_FIELD_ID | UCP_AM_HANDLER_PARAM_FIELD_CB | UCP_AM_HANDLER_PARAM_FIELD_ARG;
  handler.id = kControlId;
  handler.cb = &Group::on_control;
  handler.arg = this;
  check(ucp_worker_set_am_recv_handler(worker_->get(), &handler), "no handler for control messages");
  address_ = worker_->address();
}

void Group::connect(Peer& peer, const char* address) {
  ucp_ep_params_t params{};
  params.field_mask =
      UCP_EP_PARAM_FIELD_REMOTE_ADDRESS | UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE | UCP_EP_PARAM_FIELD_ERR_HANDLER;
  params.address = reinterpret_cast<const ucp_address_t*>(address);
  params.err_mode = UCP_ERR_HANDLING_MODE_PEER;
  params.err_handler = {&Group::on_error, &peer};
  const ucs_status_t status = ucp_ep_create(worker_->get(), &params, &peer.endpoint);
  if (status != UCS_OK) {
    peer.endpoint = nullptr;
    throw failure(status,
                  "no connection to " + describe(peer) +
                      " (UCX_TLS must allow a transport that reaches it; UCX_NET_DEVICES names the interface)",
                  peer.world_rank);
  }
  peer.lanes = lanes_of(peer.endpoint);
  say(peer, Word::kHello);
}

// Both ways work with everybody. What UCX says of an endpoint that it is still wiring up counts for nothing: it counts
// from when the peer has our hello.
bool Group::greet() {
  worker_->progress();
  if (is_broken()) return false;
  bool all = true;
  for_each_peer([&](Peer& peer) {
    if (peer.said_hello && !peer.was_answered) {
      peer.was_answered = true;
      say(peer, Word::kReady);
    }
    all = peer.is_ready && peer.was_answered && all;
  });
  if (!all) return false;
  some_buffer_ = false;
  for_each_peer([this](Peer& peer) {
    peer.lanes = lanes_of(peer.endpoint);
    some_buffer_ = some_buffer_ || peer.lanes.some_buffer;
  });
  guard_sockets(this, sockets_of(worker_->event_fd()));
  return true;
}

void Group::check_deadline() {
  if (timeout_ns_ == 0 || now_ns() - created_ns_ < timeout_ns_) return;
  int missing = std::min(gather_.waiting_for(), size_ - 1);
  if (step_ == Step::kHellos) {
    for_each_peer([&](const Peer& peer) {
      if (!peer.said_hello || !peer.is_ready) missing = peer.rank;
    });
  }
  const Peer& peer = peers_[static_cast<std::size_t>(missing)];
  abort({RODA_ERR_TIMEOUT,
         "ucx: " + label() + " did not form within " + std::to_string(timeout_ns_ / 1'000'000) +
             " ms, still waiting for rank " + std::to_string(peer.world_rank) +
             "; if the ranks are merely slow, raise HOROVOD_GLOO_TIMEOUT_SECONDS",
         peer.world_rank});
  act_on_abort();
  cause_.throw_if_set();
}

std::string Group::describe(const Peer& peer) const {
  return "rank " + std::to_string(peer.world_rank) + " (" + label() + ")";
}

void Group::refuse(int peer) {
  if (is_broken()) act_on_abort();
  cause_.throw_if_set();
  if (step_ != Step::kFormed) throw sdk::Failure(RODA_ERR_PRECONDITION, "ucx: " + label() + " is still forming");
  if (peer < 0 || peer >= size_ || peer == rank_) {
    throw sdk::Failure(RODA_ERR_INVALID, "ucx: no peer " + std::to_string(peer) + " in " + label());
  }
  const Peer& gone = peers_[static_cast<std::size_t>(peer)];
  throw sdk::Failure(RODA_ERR_PEER, "ucx: " + describe(gone) + " has left", gone.world_rank);
}

}  // namespace roda::ucx

// How a group forms: who is where, the workers' addresses, endpoints, and a hello through each of them.
#include <algorithm>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <utility>

#include "plugins/base/fork_guard.h"
#include "plugins/base/local_address.h"
#include "transports/ucx/group.h"
#include "transports/ucx/library.h"
#include "transports/ucx/wire.h"

namespace roda::ucx {
namespace {

// The sockets behind a worker: those that its event descriptor watches, itself or by way of other such sets, which are
// two levels deep in UCX.
void collect_sockets(int event_fd, std::vector<int>* sockets, int depth = 3) {
  std::ifstream info("/proc/self/fdinfo/" + std::to_string(event_fd));
  for (std::string line; std::getline(info, line);) {
    if (line.rfind("tfd:", 0) != 0) continue;
    const int fd = std::stoi(line.substr(4));
    if (socket_inode(fd) != 0) {
      sockets->push_back(fd);
    } else if (depth > 0) {
      collect_sockets(fd, sockets, depth - 1);
    }
  }
}

struct Identity {
  char host[128];
  char version[32];
};

Identity own_identity() {
  Identity identity{};
  std::snprintf(identity.host, sizeof identity.host, "%s", loopback_identity().c_str());
  std::snprintf(identity.version, sizeof identity.version, "%s", library_version().c_str());
  return identity;
}

}  // namespace

Group::Group(Context& context, const roda_group_desc& desc)
    : context_(context),
      state_("ucx", desc),
      tags_(desc.size, desc.generation),
      peers_(static_cast<std::size_t>(desc.size)) {
  for (int i = 0; i < state_.size(); ++i) {
    Peer& peer = peers_[static_cast<std::size_t>(i)];
    peer.group = this;
    peer.rank = i;
    peer.world_rank = state_.world_rank(i);
  }
  const Identity identity = own_identity();
  gather_ = state_.gather("ucx.identity", &identity, sizeof identity);
  context_.add(this);
}

bool Group::advance() {
  if (step_ != Step::kHellos && !gather_.test()) return false;
  switch (step_) {
    case Step::kIdentities: {
      check_identities();
      const std::uint64_t length = address_.size();
      gather_ = state_.gather("ucx.length", &length, sizeof length);
      step_ = Step::kLengths;
      return state_.size() == 1;
    }
    case Step::kLengths: {
      std::uint64_t longest = 0;
      for (int i = 0; i < state_.size(); ++i) longest = std::max(longest, gather_.value_as<std::uint64_t>(i));
      address_.resize(longest);
      gather_ = state_.gather("ucx.address", address_.data(), longest);
      step_ = Step::kAddresses;
      return false;
    }
    case Step::kAddresses:
      for_each_peer([this](Peer& peer) { connect(peer, gather_.value(peer.rank)); });
      step_ = Step::kHellos;
      return false;
    case Step::kHellos:
      return greet();
  }
  return false;
}

// Groups of one host use loopback; different versions of UCX need not understand each other.
void Group::check_identities() {
  Reach reach = Reach::kHost;
  const auto own = gather_.value_as<Identity>(state_.rank());
  for (const Peer& peer : peers_) {
    auto other = gather_.value_as<Identity>(peer.rank);
    other.version[sizeof other.version - 1] = 0;
    if (std::memcmp(own.host, other.host, sizeof own.host) != 0) reach = Reach::kNetwork;
    if (std::strcmp(own.version, other.version) == 0) continue;
    throw sdk::Failure(RODA_ERR_PRECONDITION,
                       "ucx: " + describe(peer) + " has UCX " + other.version + ", rank " +
                           std::to_string(state_.world_rank(state_.rank())) + " has " + own.version +
                           ": install the same version on all hosts",
                       peer.world_rank);
  }
  library_ = &context_.library(reach, state_.size(), state_.address());
  memories_ = std::make_unique<Memories>(*library_);
  if (state_.size() == 1) return;
  worker_ = std::make_unique<Worker>(*library_);
  context_.watch(worker_->event_fd());
  ucp_am_handler_param_t handler{};
  handler.field_mask = UCP_AM_HANDLER_PARAM_FIELD_ID | UCP_AM_HANDLER_PARAM_FIELD_CB | UCP_AM_HANDLER_PARAM_FIELD_ARG;
  handler.id = kControlId;
  handler.cb = &Group::on_control;
  handler.arg = this;
  check(ucp.worker_set_am_recv_handler(worker_->get(), &handler), "no handler for control messages");
  address_ = worker_->address();
}

void Group::connect(Peer& peer, const char* address) {
  ucp_ep_params_t params{};
  params.field_mask =
      UCP_EP_PARAM_FIELD_REMOTE_ADDRESS | UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE | UCP_EP_PARAM_FIELD_ERR_HANDLER;
  params.address = reinterpret_cast<const ucp_address_t*>(address);
  params.err_mode = UCP_ERR_HANDLING_MODE_PEER;
  params.err_handler = {&Group::on_error, &peer};
  const ucs_status_t status = ucp.ep_create(worker_->get(), &params, &peer.endpoint);
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
  if (state_.is_broken()) return false;
  bool all = true;
  for_each_peer([&](Peer& peer) {
    if (peer.said_hello && !std::exchange(peer.was_answered, true)) say(peer, Word::kReady);
    all = peer.is_ready && peer.was_answered && all;
  });
  if (!all) return false;
  some_buffer_ = false;
  for_each_peer([this](Peer& peer) {
    peer.lanes = lanes_of(peer.endpoint);
    some_buffer_ = some_buffer_ || peer.lanes.some_buffer;
  });
  std::vector<int> sockets;
  collect_sockets(worker_->event_fd(), &sockets);
  guard_sockets(this, sockets);
  return true;
}

}  // namespace roda::ucx

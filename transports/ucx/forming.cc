// How a group forms: who is where, and the workers' addresses.
#include <algorithm>
#include <cstdio>
#include <cstring>

#include "plugins/base/local_address.h"
#include "transports/ucx/group.h"
#include "transports/ucx/library.h"

namespace roda::ucx {
namespace {

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
      exchange_(desc.exchange),
      tags_(desc.size, desc.generation),
      peers_(static_cast<std::size_t>(desc.size)) {
  for (int i = 0; i < state_.size(); ++i) {
    Peer& peer = peers_[static_cast<std::size_t>(i)];
    peer.group = this;
    peer.rank = i;
    peer.world_rank = state_.world_rank(i);
  }
  const Identity identity = own_identity();
  gather("ucx.identity", &identity, sizeof identity);
  context_.add(this);
}

void Group::gather(const char* key, const void* value, std::size_t bytes) {
  gather_ = sdk::Allgather(exchange_, state_.rank(), state_.size(), key);
  gather_.start(value, bytes);
}

bool Group::test() {
  if (state_.is_broken()) act_on_abort();
  const auto fail = [this](const sdk::Failure& failure) {
    abort(failure);
    act_on_abort();
  };
  return state_.form([this] { return advance(); }, [this] { return state_.late(gather_.missing()); }, fail);
}

bool Group::advance() {
  if (!gather_.test()) return false;
  switch (step_) {
    case Step::kIdentities: {
      check_identities();
      const std::uint64_t length = address_.size();
      gather("ucx.length", &length, sizeof length);
      step_ = Step::kLengths;
      return state_.size() == 1;
    }
    case Step::kLengths: {
      std::uint64_t longest = 0;
      for (int i = 0; i < state_.size(); ++i) longest = std::max(longest, gather_.value_as<std::uint64_t>(i));
      address_.resize(longest);
      gather("ucx.address", address_.data(), longest);
      step_ = Step::kAddresses;
      return false;
    }
    case Step::kAddresses:
      return true;
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
  library_ = &context_.library(reach, state_.size());
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

void Group::refuse(int peer) {
  if (state_.is_broken()) act_on_abort();
  if (!state_.works() || !state_.is_peer(peer)) state_.refuse(peer);
  throw gone(peers_[static_cast<std::size_t>(peer)]);
}

}  // namespace roda::ucx

// Connections of a group: made when they are needed, guarded, and what is known of them.
#include <algorithm>
#include <fstream>
#include <string>
#include <vector>

#include "plugins/base/fork_guard.h"
#include "transports/ucx/group.h"

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

}  // namespace

void Group::connect(Peer& peer) {
  ucp_ep_params_t params{};
  params.field_mask =
      UCP_EP_PARAM_FIELD_REMOTE_ADDRESS | UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE | UCP_EP_PARAM_FIELD_ERR_HANDLER;
  params.address = reinterpret_cast<const ucp_address_t*>(gather_.value(peer.rank));
  params.err_mode = UCP_ERR_HANDLING_MODE_PEER;
  params.err_handler = {&Group::on_error, &peer};
  const ucs_status_t status = ucp.ep_create(worker_->get(), &params, &peer.endpoint);
  if (status != UCS_OK) {
    peer.endpoint = nullptr;
    peer.lost = status;
    throw gone(peer);
  }
  // What UCX says of an endpoint that it is still wiring up counts for nothing else.
  peer.lanes = {true, true, lanes_of(peer.endpoint).meets_by_datagrams};
  has_new_connections_ = true;
  unpack_windows(peer);
}

// As soon as there is an endpoint: UCX does not survive the keys of a peer that has died.
void Group::unpack_windows(Peer& peer) {
  for (RemoteWindow& window : peer.windows) {
    if (window.packed.empty() || window.key != nullptr) continue;
    check(ucp.ep_rkey_unpack(peer.endpoint, window.packed.data(), &window.key),
          "the key of a window of " + describe(peer));
  }
}

// Of peers with whom something moved for the first time: their sockets are there, and UCX knows which lanes it took.
// Who has opened a window is connected to.
void Group::look_at_connections() {
  some_buffer_ = false;
  for_each_peer([this](Peer& peer) {
    const auto has_key = [](const RemoteWindow& window) { return !window.packed.empty(); };
    if (peer.endpoint == nullptr && !peer.has_left && peer.lost == UCS_OK &&
        std::ranges::any_of(peer.windows, has_key)) {
      sdk::done(nullptr, [&] { connect(peer); });
    }
    if (peer.endpoint == nullptr) return;
    if (!peer.knows_lanes && peer.is_connected() && peer.lost == UCS_OK) {
      peer.knows_lanes = true;
      peer.lanes = lanes_of(peer.endpoint);
    }
    const bool was_used = peer.has_sent || peer.control_sent > 0;
    some_buffer_ = some_buffer_ || (was_used && peer.lanes.some_buffer);
  });
  has_new_connections_ = false;
  std::vector<int> sockets;
  collect_sockets(worker_->event_fd(), &sockets);
  guard_sockets(this, sockets);
}

sdk::Failure Group::gone(const Peer& peer) const {
  if (peer.has_left) return state_.has_left(peer.rank);
  const sdk::Failure why = failure(peer.lost, "no connection to " + describe(peer));
  return {RODA_ERR_PEER,
          why.what() +
              std::string(". Its process has ended, or it has left the group, or it can't be reached: UCX_TLS must "
                          "allow a transport that does, and UCX_NET_DEVICES names the interface"),
          peer.world_rank};
}

}  // namespace roda::ucx

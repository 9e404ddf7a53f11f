// Control messages that come in, connections that break, aborts, and the end of a group.
#include "transports/ucx/group.h"

#include <sched.h>

#include <algorithm>
#include <cstring>

#include "plugins/base/fork_guard.h"

namespace roda::ucx {
namespace {

// For the farewell to peers that don't listen, and for UCX to close endpoints: over shared memory that a dead peer left
// full it never does.
constexpr std::uint64_t kFarewellNs = 200'000'000;
constexpr std::uint64_t kClosingNs = 1'000'000'000;

}  // namespace

ucs_status_t Group::on_control(void* self, const void* header_bytes, std::size_t header_size, void* data,
                               std::size_t bytes, const ucp_am_recv_param_t* param) {
  Group& group = *static_cast<Group*>(self);
  ControlHeader header{};
  if (header_size != sizeof header || (param->recv_attr & UCP_AM_RECV_ATTR_FLAG_RNDV) != 0) return UCS_OK;
  std::memcpy(&header, header_bytes, sizeof header);
  if (!group.state_.is_peer(header.sender)) return UCS_OK;
  roda_error error{};
  const int32_t code = sdk::done(&error, [&] {
    group.peers_[static_cast<std::size_t>(header.sender)].inbox.arrive(
        header, static_cast<const char*>(data), bytes,
        [&group](const ControlHeader& next, const char* payload, std::size_t length) {
          group.take(next, payload, length);
        });
  });
  if (code != RODA_OK) group.abort(sdk::Failure(error));
  return UCS_OK;
}

void Group::take(const ControlHeader& header, const char* data, std::size_t bytes) {
  Peer& peer = peers_[static_cast<std::size_t>(header.sender)];
  ++peer.moves;
  switch (header.word) {
    case Word::kHello:
      peer.said_hello = true;
      break;
    case Word::kReady:
      peer.is_ready = true;
      break;
    case Word::kSignal:
      if (header.a < kSignals) peer.signals[header.a] = std::max(peer.signals[header.a], header.b);
      break;
    case Word::kWindow:
      window_arrived(peer, header, data, bytes);
      break;
    case Word::kNumber:
      number_arrived(peer, header.a, header.b);
      break;
    case Word::kNothing:
      break;
    case Word::kGoodbye:
      peer.has_left = someone_left_ = true;
      break;
  }
}

// By force: UCX ends all that is pending on them, and waits for nobody. It goes on in the background, which counts as
// something to flush.
void Group::close_endpoints() {
  ucp_request_param_t param{};
  param.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS;
  param.flags = UCP_EP_CLOSE_FLAG_FORCE;
  for_each_peer([&](Peer& peer) {
    if (peer.endpoint == nullptr) return;
    const ucs_status_ptr_t closing = ucp.ep_close_nbx(peer.endpoint, &param);
    if (UCS_PTR_IS_PTR(closing)) ucp.request_free(closing);
    peer.endpoint = nullptr;
  });
}

// The worker goes as soon as UCX has ended everything: from then on UCX touches no memory of this group.
int Group::finish_abort() {
  act_on_abort();
  if (!state_.has_acted()) return 0;
  if (left_behind_) {
    drop_worker(false);
    return 1;
  }
  const int handled = worker_->progress();
  const bool is_closed = requests_.pending() == 0 && buffers_are_empty();
  if (!is_closed && sdk::now_ns() - acted_ns_ < kClosingNs) return handled;
  drop_worker(is_closed);
  return handled + 1;
}

// UCX does not survive a worker that is destroyed while its endpoints are closing, and over shared memory that a dead
// peer left full they never are closed. Such a worker, and one whose endpoints can't be closed, stays to the end of the
// process; without progress it touches nothing.
void Group::drop_worker(bool is_closed) {
  context_.unwatch(worker_->event_fd());
  if (is_closed) {
    for (Peer& peer : peers_) {
      for (RemoteWindow& window : peer.windows) {
        if (window.key != nullptr) ucp.rkey_destroy(window.key);
        window.key = nullptr;
      }
    }
    if (flushing_ != nullptr) ucp.request_free(flushing_);
    forget_sockets(this);
    worker_.reset();
  } else {
    library_->keep_for_ever();
    static_cast<void>(worker_.release());
  }
  flushing_ = nullptr;
  requests_.for_each_pending([this](Request& request) {
    request.status = UCS_ERR_CANCELED;
    requests_.finish(request);
  });
}

template <typename Done>
void Group::progress_until(Done&& done, std::uint64_t limit_ns) {
  for (const std::uint64_t end = sdk::now_ns() + limit_ns; !done() && sdk::now_ns() < end;) {
    if (worker_->progress() == 0) ::sched_yield();
  }
}

// So that the peers can tell a rank that left from one that died. Over devices, which lose what is in them with their
// connections, what was sent before arrives first.
void Group::say_goodbye() {
  for_each_peer([&](Peer& peer) {
    if (!peer.has_left && peer.lost == UCS_OK) say(peer, Word::kGoodbye);
  });
  progress_until([this] { return state_.is_broken() || (outbox_.untaken() == 0 && buffers_are_empty()); }, kFarewellNs);
}

Group::~Group() {
  context_.remove(this);
  if (!context_.in_owner()) {
    // A forked child: UCX's objects belong to the parent.
    static_cast<void>(worker_.release());
    static_cast<void>(memories_.release());
    return;
  }
  if (worker_ != nullptr && state_.works()) sdk::done(nullptr, [this] { say_goodbye(); });
  abort({RODA_ERR_ABORTED, state_.text("was destroyed")});
  while (worker_ != nullptr) {
    if (finish_abort() == 0) ::sched_yield();
  }
  for (std::uint32_t slot = 0; slot < kWindows; ++slot) window_close(slot);
}

bool Group::buffers_are_empty() {
  while (true) {
    if (flushing_ == nullptr) {
      const ucp_request_param_t param{};
      flushing_ = ucp.worker_flush_nbx(worker_->get(), &param);
      if (!UCS_PTR_IS_PTR(flushing_)) {
        flushing_ = nullptr;
        return true;  // or a connection is broken, which is told elsewhere
      }
      context_.stay_awake();
    }
    if (ucp.request_check_status(flushing_) == UCS_INPROGRESS) return false;
    // This flush is over, but messages that came since may wait there again.
    ucp.request_free(flushing_);
    flushing_ = nullptr;
  }
}

}  // namespace roda::ucx

// Whether what has ended goes on without this process.
//
// Over TCP, UCX ends a send when its last bytes lie in a buffer of its own; they leave when the worker makes progress.
// Asking UCX to flush its interfaces tells when these buffers are empty. Asking it to flush an endpoint would say more,
// but is a round trip over TCP, and never ends once the peer has all it wanted and makes no more progress.
#include "transports/ucx/group.h"

namespace roda::ucx {

bool Group::settle() {
  if (is_settled_ || worker_ == nullptr || !state_.works() || !context_.in_owner()) return true;
  if (someone_is_owed_) ask_for_last_words();
  if (outbox_.untaken() != 0) return false;
  if (some_buffer_ && !buffers_are_empty()) return false;
  return is_settled_ = true;
}

// The receiver of a long message has the last word, "I have it", which UCX keeps back while a lane is full. It takes no
// other message for that lane before it; so a message of no meaning that it has taken says that the word is out.
void Group::ask_for_last_words() {
  someone_is_owed_ = false;
  for_each_peer([this](Peer& peer) {
    if (!peer.is_owed) return;
    peer.is_owed = false;
    if (peer.has_left || peer.lost != UCS_OK) return;
    say(peer, Word::kNothing);
    context_.stay_awake();
  });
}

bool Group::buffers_are_empty() {
  while (true) {
    if (flushing_ == nullptr) {
      const ucp_request_param_t param{};
      flushing_ = ucp_worker_flush_nbx(worker_->get(), &param);
      if (!UCS_PTR_IS_PTR(flushing_)) {
        flushing_ = nullptr;
        return true;  // or a connection is broken, which is told elsewhere
      }
      context_.stay_awake();
    }
    if (ucp_request_check_status(flushing_) == UCS_INPROGRESS) return false;
    // That was then: what came since may lie there again.
    ucp_request_free(flushing_);
    flushing_ = nullptr;
  }
}

}  // namespace roda::ucx

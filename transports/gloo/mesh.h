// A full mesh of Gloo's TCP pairs, formed step by step so that the exchange in between can be driven without blocking.
//
// Gloo's own connectFullMesh blocks in a store from beginning to end and has changed its signature between versions;
// the pairs below it have not, and can be given sockets: only members come to be connected (Connector). All are
// connected before the group works: Gloo's collectives write to whichever pairs they like, and one that isn't connected
// throws.
#pragma once

#include <gloo/context.h>
#include <gloo/transport/context.h>
#include <gloo/transport/device.h>
#include <gloo/transport/tcp/loop.h>
#include <gloo/transport/unbound_buffer.h>
#include <signal.h>
#include <time.h>

#include "transports/gloo/connector.h"

namespace roda::gloo {

// While it lives, a write to a connection whose peer is gone raises no signal on this thread, which is the user's.
class PipeSignalHeld {
 public:
  PipeSignalHeld() {
    sigemptyset(&pipe_);
    sigaddset(&pipe_, SIGPIPE);
    pthread_sigmask(SIG_BLOCK, &pipe_, &before_);
  }
  ~PipeSignalHeld() {
    if (sigismember(&before_, SIGPIPE) == 1) return;
    const timespec now{};
    if (may_be_pending_) sigtimedwait(&pipe_, nullptr, &now);
    pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  }
  // Everything was written: saves looking for the signal.
  void all_written() { may_be_pending_ = false; }
  PipeSignalHeld(const PipeSignalHeld&) = delete;
  PipeSignalHeld& operator=(const PipeSignalHeld&) = delete;

 private:
  sigset_t pipe_;
  sigset_t before_;
  bool may_be_pending_ = true;
};

using Buffer = std::unique_ptr<::gloo::transport::UnboundBuffer>;

class Mesh {
 public:
  // Starts listening. Throws what Gloo throws, and NoConnection.
  Mesh(const std::shared_ptr<::gloo::transport::Device>& device, int rank, int size, std::chrono::milliseconds timeout);
  ~Mesh() { forget_sockets(this); }

  // What the others need to connect; of one length on all ranks.
  std::vector<char> card() const { return connector_->card(); }
  // Blocks until all pairs are connected; throws NoConnection. `card_of`: the other ranks' cards.
  void connect(const std::function<const char*(int)>& card_of);

  // Handles what has come from `peer`, on this thread instead of the device's own: no thread has to be woken. When that
  // one is at it, and in versions of Gloo that leave it to that one alone, nothing happens here. True if there was
  // something.
  bool drive(int peer);
  // What has come from `peer` and nobody has read yet; 0 as well when that can't be told.
  std::size_t unread_bytes(int peer) const;
  // What was written to `peer` and has not arrived there; 0 as well when that can't be told.
  std::size_t unsent_bytes(int peer) const;
  // To sleep on; -1 if it isn't known. Gloo's: it may be closed at any time.
  int socket(int peer) const { return sockets_[static_cast<std::size_t>(peer)]; }

  // Ends everything that is pending or will be started on any pair, and connecting too, with an exception. Any thread;
  // takes a few ms per pair.
  void abort() noexcept;

  // The peer that an exception's text is about, or whose connection is found broken; -1 if that can't be told.
  int find_lost_peer(const std::string& text);

  const std::shared_ptr<::gloo::Context>& context() const { return context_; }

 private:
  bool is_broken(int peer);

  const int rank_;
  const int size_;
  std::unique_ptr<Connector> connector_;  // until all are connected
  std::atomic<bool> is_aborted_{false};
  std::shared_ptr<::gloo::transport::Context> pairs_;
  std::shared_ptr<::gloo::Context> context_;
  std::vector<int> sockets_;
  std::vector<::gloo::transport::tcp::Handler*> handlers_;  // of the pairs; null once it is closed
  std::vector<std::string> peer_names_;                     // as Gloo prints the far end of each connection
};

}  // namespace roda::gloo

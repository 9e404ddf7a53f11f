// One connection with a peer, made when it is needed: cuts what comes into frames, and writes those that wait.
//
// Payloads are received where they belong: the kernel's copy is the only one, but for what comes in one piece with its
// header. Used by one thread at a time.
#pragma once

#include <cstddef>
#include <cstdint>

#include "plugins/base/fork_guard.h"
#include "plugins/base/unique_fd.h"
#include "transports/tcp/outbox.h"
#include "transports/tcp/request.h"
#include "transports/tcp/watched.h"
#include "transports/tcp/wire.h"

namespace roda::tcp_transport {

class Context;
class Messages;
struct Peer;
struct Unexpected;

class Lane final : public Watched {
 public:
  Lane(Context& context, Messages& messages, Peer& peer, int index);
  ~Lane();

  Peer& peer() { return peer_; }
  int index() const { return index_; }
  // Until then frames wait in the outbox.
  void connect(UniqueFd fd);
  bool is_open() const { return static_cast<bool>(fd_); }
  // It was given up, or had never been connected to be so.
  bool is_closed() const { return is_closed_; }
  // Gives the descriptor up for good; frames that wait stay in the outbox.
  UniqueFd release();

  // Reads what has come, to a limit. Returns the number of pieces. Throws sdk::Failure for frames that make no sense.
  int read();
  // Writes what waits and fits. Returns the number of pieces.
  int flush();
  Outbox& outbox() { return outbox_; }
  // Waits for room; when there is some, flush() is called.
  bool is_blocked() const { return is_blocked_; }
  void on_event(std::uint32_t events) override;

  // The frame that is being received: what its payload belongs to, if anything.
  struct Arrival {
    Header header;
    Request* request = nullptr;
    Unexpected* unexpected = nullptr;
  };
  Arrival& arrival() { return arrival_; }
  // The rest of the payload is dropped: its place is gone.
  void drop_payload();

  // The context's: it is in its lists.
  bool is_readable = false;
  bool is_dirty = false;

 private:
  void take(const std::byte* data, std::size_t bytes);
  void begin();
  void finish();
  void end(int error);
  void set_blocked(bool blocked);

  Context& context_;
  Messages& messages_;
  Peer& peer_;
  const int index_;
  UniqueFd fd_;
  ForkGuard guard_;

  Arrival arrival_;
  std::size_t header_bytes_ = 0;  // of arrival_.header that are here
  bool in_payload_ = false;
  std::byte* target_ = nullptr;  // null: the payload is dropped
  std::size_t left_ = 0;         // of the payload
  bool is_closed_ = false;
  bool is_ending_ = false;  // the end of the stream, or an error, is in sight

  Outbox outbox_;
  bool is_blocked_ = false;
  bool cannot_write_ = false;
};

}  // namespace roda::tcp_transport

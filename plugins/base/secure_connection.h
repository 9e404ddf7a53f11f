// One authenticated, framed TCP connection; nothing blocks. The control plane and the rendezvous are made of these.
//
//   connect or accept -> test until ready -> send_frame / receive_frame, with fd() and wants_write() in a poll loop.
//
// Used by one thread at a time. The first error stays: every later call returns it. Errors name the peer's address.
// Forked children do not keep the descriptor.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "plugins/base/address.h"
#include "plugins/base/auth.h"
#include "plugins/base/fork_guard.h"
#include "plugins/base/format.h"
#include "plugins/base/framing.h"
#include "plugins/base/secret.h"
#include "plugins/base/socket.h"
#include "plugins/base/status.h"
#include "plugins/base/unique_fd.h"

namespace roda {

struct ConnectionOptions {
  std::uint16_t service = 0;  // equal on both sides: which listener of the job this is
  std::size_t max_frame = 1 << 20;
  std::size_t max_queued = 16 << 20;                    // bytes waiting to be sent before send_frame refuses
  std::chrono::milliseconds handshake_timeout{10'000};  // from start to ready
  std::chrono::milliseconds silence{30'000};            // a peer that acknowledges nothing for so long is given up
};

class SecureConnection {
 public:
  using Clock = std::chrono::steady_clock;

  // Tries the addresses in order. fd() may change until ready.
  static Status connect(std::vector<SocketAddress> peers, const Secret& secret, const ConnectionOptions& options,
                        std::unique_ptr<SecureConnection>* connection);
  // For a descriptor from tcp::accept_one.
  static Status accept(UniqueFd fd, const SocketAddress& peer, const Secret& secret, const ConnectionOptions& options,
                       std::unique_ptr<SecureConnection>* connection);

  // Moves connecting and the handshake on. Call when the descriptor is readable or writable, and after the deadline.
  Status test(bool* ready);
  bool ready() const { return phase_ == Phase::kReady; }
  Clock::time_point handshake_deadline() const { return deadline_; }

  // Only when ready. *accepted is false under back-pressure: nothing was queued, try again after a flush.
  Status send_frame(Bytes payload, bool* accepted) {
    *accepted = false;
    RODA_RETURN_IF_ERROR(check_ready());
    bool was_empty = writer_.empty();
    RODA_RETURN_IF_ERROR(writer_.push(payload, accepted));
    return was_empty ? flush() : Status();
  }
  Status flush() {
    if (phase_ == Phase::kFailed) return failure_;
    Status status = writer_.flush(fd_.get());
    return status.ok() ? status : fail(status);
  }
  // *received is false when no whole frame has come yet. Call until then before sleeping on the descriptor.
  Status receive_frame(std::vector<std::uint8_t>* frame, bool* received) {
    *received = false;
    RODA_RETURN_IF_ERROR(check_ready());
    Status status = reader_.receive(fd_.get(), frame, received);
    return status.ok() ? status : fail(status);
  }

  // Only when ready, and before any frame: the descriptor with its new owner. This object is good for nothing then.
  UniqueFd release() {
    guard_ = ForkGuard();
    return std::move(fd_);
  }

  int fd() const { return fd_.get(); }
  bool wants_write() const {
    if (phase_ == Phase::kHandshake) return !handshake_->output().empty();
    return phase_ == Phase::kConnecting || (phase_ == Phase::kReady && !writer_.empty());
  }
  const std::string& peer() const { return peer_; }

 private:
  enum class Phase : std::uint8_t { kConnecting, kHandshake, kReady, kFailed };

  SecureConnection(Handshake::Role role, const Secret& secret, const ConnectionOptions& options)
      : options_(options),
        deadline_(Clock::now() + options.handshake_timeout),
        handshake_(std::make_unique<Handshake>(role, secret, options.service)),
        reader_(options.max_frame),
        writer_(options.max_frame, options.max_queued) {}
  Status start_next_address();
  Status test_connected() {
    bool connected = false;
    Status status = tcp::connect_test(fd_.get(), &connected);
    if (!status.ok()) return untried_.empty() ? fail(status) : start_next_address();
    return connected ? enter_handshake() : Status();
  }
  Status test_handshake();
  Status enter_handshake() {
    Status status = tcp::set_options(fd_.get(), options_.silence);
    if (!status.ok()) return fail(status);
    phase_ = Phase::kHandshake;
    return {};
  }
  Status fail(const Status& cause) {
    phase_ = Phase::kFailed;
    failure_ = Status(cause.code(), roda::format("connection with {}: {}", peer_, cause.message()), cause.rank());
    return failure_;
  }
  Status check_ready() const {
    if (phase_ == Phase::kFailed) return failure_;
    return phase_ == Phase::kReady ? Status() : Status::precondition("a frame before the connection is ready");
  }
  void own(UniqueFd fd, const SocketAddress& peer) {
    guard_ = ForkGuard();
    fd_ = std::move(fd);
    guard_ = ForkGuard(fd_.get());
    peer_ = peer.text();
  }

  ConnectionOptions options_;
  Clock::time_point deadline_;
  Phase phase_ = Phase::kConnecting;
  std::vector<SocketAddress> untried_;  // in reverse order
  std::string peer_;
  UniqueFd fd_;
  ForkGuard guard_;  // after fd_: gone before it closes
  std::unique_ptr<Handshake> handshake_;
  FrameReader reader_;
  FrameWriter writer_;
  Status failure_;
};

}  // namespace roda

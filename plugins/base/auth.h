// Both sides of a connection prove that they know the job's secret before anything else is read.
//
//   client -> server  hello      magic(4) version(2) service(2) client_nonce(32)
//   server -> client  challenge  magic(4) version(2) verdict(2) server_nonce(32)
//   client -> server  proof      HMAC(secret, "roda client" header client_nonce server_nonce)   (32)
//   server -> client  answer     verdict(2) HMAC(secret, "roda server" header both nonces)      (34)
//
// Integers are little-endian; header is the first 8 bytes of the hello. The client proves itself first, so a stranger
// learns nothing; the server has read 72 bytes by then. A verdict other than 0 says why the server refuses (another
// version, another service, a wrong proof); it is a hint for the error text only and proves nothing.
//
// The state machine does no I/O: the owner moves bytes. Used by one thread at a time.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "plugins/base/hmac.h"
#include "plugins/base/secret.h"
#include "plugins/base/status.h"

namespace roda {

class Handshake {
 public:
  enum class Role : std::uint8_t { kClient, kServer };
  static constexpr std::uint16_t kVersion = 1;

  // Both sides give the same service number; it keeps a connection from reaching the wrong listener of the same job.
  Handshake(Role role, Secret secret, std::uint16_t service)
      : role_(role), secret_(std::move(secret)), service_(service) {}
  // Draws the nonce. Call once, first.
  Status start();

  Bytes output() const { return Bytes(output_).subspan(sent_); }
  void consume_output(std::size_t bytes) { sent_ += bytes; }

  // How many bytes to read next, never more: what follows the handshake belongs to somebody else. 0 when done or
  // failed.
  std::size_t wanted() const { return wanted_; }
  // `bytes` has at most wanted() bytes. On an error there may still be output to send (the verdict).
  Status feed(Bytes bytes);

  // Nothing more to read; output may be left.
  bool done() const { return done_; }
  // What it is waiting for, for error texts.
  const char* waiting_for() const {
    if (done_) return "nothing";
    if (role_ == Role::kServer) return step_ == 0 ? "the client's hello" : "the client's proof of the secret";
    return step_ == 0 ? "the server's challenge" : "the server's proof of the secret";
  }

 private:
  using Nonce = std::array<std::uint8_t, 32>;

  Status on_hello();
  Status on_challenge();
  Status on_proof();
  Status on_answer();
  Status proof(const char* label, Digest* digest) const;
  void expect(std::size_t bytes) {
    input_.clear();
    wanted_ = bytes;
  }
  Status refuse(std::uint16_t verdict, std::string why);

  Role role_;
  Secret secret_;
  std::uint16_t service_;
  Nonce client_nonce_{};
  Nonce server_nonce_{};
  int step_ = 0;  // messages taken in so far
  std::size_t wanted_ = 0;
  bool done_ = false;
  std::vector<std::uint8_t> input_;
  std::vector<std::uint8_t> output_;
  std::size_t sent_ = 0;
};

}  // namespace roda

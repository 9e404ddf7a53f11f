#include "plugins/base/secure_connection.h"

#include <algorithm>

#include "plugins/base/format.h"
#include "plugins/base/socket.h"

namespace roda {

Status SecureConnection::connect(std::vector<SocketAddress> peers, const Secret& secret,
                                 const ConnectionOptions& options, std::unique_ptr<SecureConnection>* connection) {
  if (peers.empty()) return Status::invalid("no address to connect to");
  std::unique_ptr<SecureConnection> made(new SecureConnection(Handshake::Role::kClient, secret, options));
  RODA_RETURN_IF_ERROR(made->handshake_->start());
  std::reverse(peers.begin(), peers.end());
  made->untried_ = std::move(peers);
  RODA_RETURN_IF_ERROR(made->start_next_address());
  *connection = std::move(made);
  return {};
}

Status SecureConnection::accept(UniqueFd fd, const SocketAddress& peer, const Secret& secret,
                                const ConnectionOptions& options, std::unique_ptr<SecureConnection>* connection) {
  std::unique_ptr<SecureConnection> made(new SecureConnection(Handshake::Role::kServer, secret, options));
  RODA_RETURN_IF_ERROR(made->handshake_->start());
  made->own(std::move(fd), peer);
  RODA_RETURN_IF_ERROR(made->enter_handshake());
  *connection = std::move(made);
  return {};
}

Status SecureConnection::start_next_address() {
  Status status;
  while (!untried_.empty()) {
    SocketAddress peer = untried_.back();
    untried_.pop_back();
    peer_ = peer.text();
    UniqueFd fd;
    status = tcp::connect_start(peer, &fd);
    if (status.ok()) {
      own(std::move(fd), peer);
      return {};
    }
  }
  return fail(status);
}

Status SecureConnection::test_handshake() {
  std::uint8_t buffer[128];
  while (true) {
    std::size_t count = 0;
    if (!handshake_->output().empty()) {
      Status status = tcp::write_some(fd_.get(), handshake_->output(), &count);
      if (!status.ok()) return fail(status);
      handshake_->consume_output(count);
      if (count == 0) return {};
      continue;
    }
    if (handshake_->done()) break;
    bool end = false;
    auto wanted = std::span(buffer).first(std::min(handshake_->wanted(), sizeof buffer));
    Status status = tcp::read_some(fd_.get(), wanted, &count, &end);
    if (end) status = Status::auth(roda::format("it closed the connection before {}", handshake_->waiting_for()));
    if (!status.ok()) return fail(status);
    if (count == 0) return {};
    status = handshake_->feed(wanted.first(count));
    if (!status.ok()) {
      static_cast<void>(tcp::write_some(fd_.get(), handshake_->output(), &count));  // the verdict, as a courtesy
      return fail(status);
    }
  }
  phase_ = Phase::kReady;
  handshake_.reset();
  return {};
}

Status SecureConnection::test(bool* ready) {
  *ready = false;
  if (phase_ == Phase::kFailed) return failure_;
  if (phase_ == Phase::kConnecting) RODA_RETURN_IF_ERROR(test_connected());
  if (phase_ == Phase::kHandshake) RODA_RETURN_IF_ERROR(test_handshake());
  *ready = phase_ == Phase::kReady;
  if (!*ready && Clock::now() >= deadline_) {
    const char* what = phase_ == Phase::kConnecting ? "the connection" : handshake_->waiting_for();
    return fail(Status::timeout(roda::format("waited {} ms for {}", options_.handshake_timeout.count(), what)));
  }
  return {};
}

}  // namespace roda

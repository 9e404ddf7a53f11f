#include "transports/gloo/silent_pairs.h"

#include <gloo/transport/tcp/context.h>
#include <gloo/transport/tcp/device.h>
#include <gloo/transport/tcp/pair.h>
#include <netinet/in.h>
#include <roda/sdk/error.hpp>

#include <mutex>
#include <utility>

namespace roda::gloo {
namespace {

class SilentPair final : public ::gloo::transport::tcp::Pair {
 public:
  using ::gloo::transport::tcp::Pair::Pair;

  // A pair listens from its construction on. False: somebody has come already.
  bool stop_listening() {
    const std::lock_guard<std::mutex> lock(m_);
    if (state_ != LISTENING) return false;
    device_->unregisterDescriptor(fd_, this);
    ::close(fd_);
    fd_ = -1;
    state_ = INITIALIZING;
    return true;
  }

  void take(UniqueFd socket) {
    const std::lock_guard<std::mutex> lock(m_);
    throwIfException();
    fd_ = socket.release();
    self_ = ::gloo::transport::tcp::Address::fromSockName(fd_);
    peer_ = ::gloo::transport::tcp::Address::fromPeerName(fd_);
    handleConnected();
  }
};

class SilentContext final : public ::gloo::transport::tcp::Context {
 public:
  using ::gloo::transport::tcp::Context::Context;

  std::unique_ptr<::gloo::transport::Pair>& createPair(int peer) override {
    auto& pair = pairs_[static_cast<std::size_t>(peer)];
    pair = std::make_unique<SilentPair>(this, device_.get(), peer, getTimeout());
    return pair;
  }

  // Makes all pairs. False: a stranger was faster.
  bool make_pairs(SocketAddress* address) {
    for (int peer = 0; peer < size; ++peer) {
      if (peer == rank) continue;
      auto& pair = static_cast<SilentPair&>(*createPair(peer));
      address->storage = dynamic_cast<const ::gloo::transport::tcp::Address&>(pair.address()).getSockaddr();
      address->length = address->family() == AF_INET6 ? sizeof(sockaddr_in6) : sizeof(sockaddr_in);
      if (!pair.stop_listening()) return false;
    }
    return true;
  }
};

// Of microseconds each, on another port: who met them all does nothing else, and knows the ports before they are open.
constexpr int kMostAttempts = 100;

}  // namespace

std::shared_ptr<::gloo::transport::Context> make_silent_pairs(const std::shared_ptr<::gloo::transport::Device>& device,
                                                              int rank, int size, std::chrono::milliseconds timeout,
                                                              SocketAddress* address) {
  for (int attempt = 0; attempt < kMostAttempts; ++attempt) {
    auto context =
        std::make_shared<SilentContext>(std::dynamic_pointer_cast<::gloo::transport::tcp::Device>(device), rank, size);
    context->setTimeout(timeout);
    if (context->make_pairs(address)) return context;
  }
  throw sdk::Failure(RODA_ERR_UNKNOWN, "gloo: strangers connect to every port as soon as it is open");
}

void give_connection(::gloo::transport::Pair* pair, UniqueFd socket) {
  dynamic_cast<SilentPair&>(*pair).take(std::move(socket));
}

}  // namespace roda::gloo

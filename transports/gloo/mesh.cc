#include "transports/gloo/mesh.h"

#include <gloo/transport/tcp/address.h>
#include <gloo/transport/tcp/context.h>
#include <gloo/transport/tcp/device.h>
#include <gloo/transport/tcp/pair.h>
#if !RODA_GLOO_PAIRS_LISTEN
#include <gloo/transport/tcp/socket.h>
#endif
#include <linux/sockios.h>
#include <netinet/in.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <roda/sdk/error.hpp>

#include <cerrno>
#include <mutex>

#include "plugins/base/fork_guard.h"

namespace roda::gloo {
namespace {

using std::chrono::milliseconds;

// Nobody sends on it; see collectives' slots in gloo/types.h, which use the lower 48 bits.
constexpr std::uint64_t kSilentSlot = 0x7fULL << 56;

// Adopts a transport context whose pairs we made ourselves.
class MeshContext : public ::gloo::Context {
 public:
  MeshContext(int rank, int size, std::shared_ptr<::gloo::transport::Device> device,
              std::shared_ptr<::gloo::transport::Context> pairs)
      : ::gloo::Context(rank, size) {
    device_ = std::move(device);
    transportContext_ = std::move(pairs);
  }
};

template <typename Handler>
concept DrivenByAnyone = requires(Handler& handler) { handler.handleEvents(EPOLLIN); };

template <typename Handler>
void handle(Handler& handler) {
  if constexpr (DrivenByAnyone<Handler>) handler.handleEvents(EPOLLIN);
}

// What the kernel has in the queue, an ioctl's name, of the socket.
std::size_t bytes_in(unsigned long queue, int socket) {
  int bytes = 0;
  return ::ioctl(socket, queue, &bytes) == 0 ? static_cast<std::size_t>(bytes) : 0;
}

// The end of the stream, or an error, has come as well.
bool has_come(int socket) {
  char byte = 0;
  return ::recv(socket, &byte, 1, MSG_PEEK | MSG_DONTWAIT) >= 0 || errno != EAGAIN;
}

#if RODA_GLOO_PAIRS_LISTEN
// Gloo's pairs without their listening sockets: each would take the first who connects for its peer.
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
#else
// Gloo's device listens, for all pairs; nobody waits for who comes there.
class SilentPair final : public ::gloo::transport::tcp::Pair {
 public:
  using ::gloo::transport::tcp::Pair::Pair;

  bool stop_listening() { return true; }

  void take(UniqueFd socket) {
    using ::gloo::transport::tcp::Error, ::gloo::transport::tcp::Socket;
    connectCallback(std::make_shared<Socket>(socket.release()), Error::kSuccess);
    const std::lock_guard<std::mutex> lock(m_);
    throwIfException();
  }
};
#endif

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

// Attempts take microseconds each, on another port every time. A stranger that met them all would do nothing else, and
// would know the ports before they are open.
constexpr int kMostAttempts = 100;

// A context with a pair for every other rank. *address: the device's, to listen on.
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

}  // namespace

Mesh::Mesh(const std::shared_ptr<::gloo::transport::Device>& device, int rank, int size, milliseconds timeout)
    : rank_(rank),
      size_(size),
      sockets_(static_cast<std::size_t>(size), -1),
      handlers_(static_cast<std::size_t>(size), nullptr),
      peer_names_(static_cast<std::size_t>(size)) {
  SocketAddress address;
  pairs_ = make_silent_pairs(device, rank, size, timeout, &address);
  connector_ = std::make_unique<Connector>(address, rank, size, timeout);
  context_ = std::make_shared<MeshContext>(rank, size, device, pairs_);
  context_->setTimeout(timeout);
}

void Mesh::connect(const std::function<const char*(int)>& card_of) {
  std::vector<UniqueFd> connected = connector_->connect(card_of, is_aborted_);
  connector_.reset();
  for (int peer = 0; peer < size_; ++peer) {
    if (peer == rank_) continue;
    const auto at = static_cast<std::size_t>(peer);
    sockets_[at] = connected[at].get();
    handlers_[at] = dynamic_cast<::gloo::transport::tcp::Handler*>(pairs_->getPair(peer).get());
    tcp::unpace_if_local(sockets_[at]);
    peer_names_[at] = ::gloo::transport::tcp::Address::fromPeerName(sockets_[at]).str();
  }
  guard_sockets(this, sockets_);
  // From then on they are the pairs', which may close them at any time.
  for (int peer = 0; peer < size_; ++peer) {
    if (peer == rank_) continue;
    try {
      dynamic_cast<SilentPair&>(*pairs_->getPair(peer)).take(std::move(connected[static_cast<std::size_t>(peer)]));
    } catch (const std::exception& failure) {
      throw NoConnection(peer, failure.what());
    }
  }
}

std::size_t Mesh::unread_bytes(int peer) const { return bytes_in(FIONREAD, socket(peer)); }
std::size_t Mesh::unsent_bytes(int peer) const { return bytes_in(SIOCOUTQ, socket(peer)); }

bool Mesh::drive(int peer) {
  ::gloo::transport::tcp::Handler*& handler = handlers_[static_cast<std::size_t>(peer)];
  if (handler == nullptr || socket(peer) < 0 || !has_come(socket(peer))) return false;
  const PipeSignalHeld held;
  try {
    handle(*handler);
  } catch (const std::exception&) {
    handler = nullptr;  // the pair is closed, and what was pending on it has been told
  }
  return true;
}

void Mesh::abort() noexcept {
  is_aborted_ = true;
  try {
    // A receive that times out makes Gloo tear down every pair of the context and tell whatever waits on them: the one
    // way through its public interface to reach the buffers inside a running collective.
    char nothing = 0;
    context_->createUnboundBuffer(&nothing, sizeof nothing)->waitRecv(milliseconds(1));
  } catch (const std::exception&) {
    // The time-out itself.
  }
}

int Mesh::find_lost_peer(const std::string& text) {
  for (int peer = 0; peer < size_; ++peer) {
    const std::string& name = peer_names_[static_cast<std::size_t>(peer)];
    if (name.empty()) continue;
    const std::size_t at = text.find(name);
    // "[10.0.0.1]:4321" must not match inside "[10.0.0.1]:43210".
    if (at != std::string::npos && (at + name.size() == text.size() || !std::isdigit(text[at + name.size()])))
      return peer;
  }
  int broken = -1;
  for (int peer = 0; peer < size_; ++peer) {
    if (peer == rank_ || !is_broken(peer)) continue;
    if (broken >= 0) return -1;  // several: the first to go can't be told any more
    broken = peer;
  }
  return broken;
}

bool Mesh::is_broken(int peer) {
  try {
    char nothing = 0;
    context_->createUnboundBuffer(&nothing, sizeof nothing)->recv(peer, kSilentSlot);
    return false;
  } catch (const std::exception&) {
    return true;
  }
}

}  // namespace roda::gloo

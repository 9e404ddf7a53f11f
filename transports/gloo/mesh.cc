#include "transports/gloo/mesh.h"

#include <dirent.h>
#include <gloo/transport/tcp/address.h>
#include <gloo/transport/tcp/context.h>
#include <gloo/transport/tcp/device.h>
#include <gloo/transport/tcp/pair.h>
#include <linux/sockios.h>
#include <netinet/in.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <roda/sdk/error.hpp>

#include <cerrno>
#include <cstdlib>
#include <mutex>

#include "plugins/base/foreign_sockets.h"

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

// The end of the stream, or an error, has come as well.
bool has_come(int socket) {
  char byte = 0;
  return ::recv(socket, &byte, 1, MSG_PEEK | MSG_DONTWAIT) >= 0 || errno != EAGAIN;
}

// An address of Gloo's: family and port, which may differ between the pairs of a device, the host, and the pair's
// number.
constexpr std::size_t kPortBytes = 4;
constexpr std::size_t kNumberBytes = sizeof(::gloo::transport::tcp::sequence_number_t);
constexpr std::size_t kOwnBytes = kPortBytes + kNumberBytes;

// The parts of an address as they lie in a card: the host is there once, the pair's own for each peer.
template <typename Address, typename Card, typename Copy>
void for_each_part(Address address, std::size_t bytes, Card card, int peer, Copy&& copy) {
  const std::size_t host_bytes = bytes - kOwnBytes;
  const auto own = card + static_cast<std::ptrdiff_t>(host_bytes + kOwnBytes * static_cast<std::size_t>(peer));
  copy(address + kPortBytes, card, host_bytes);
  copy(address, own, kPortBytes);
  copy(address + static_cast<std::ptrdiff_t>(bytes - kNumberBytes), own + kPortBytes, kNumberBytes);
}

#if RODA_GLOO_TAKES_SOCKETS
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
#endif

// Only what identifies an endpoint: padding and flow labels don't.
bool same(const sockaddr_storage& a, const sockaddr_storage& b) {
  if (a.ss_family != b.ss_family) return false;
  if (a.ss_family == AF_INET) {
    const auto& x = reinterpret_cast<const sockaddr_in&>(a);
    const auto& y = reinterpret_cast<const sockaddr_in&>(b);
    return x.sin_port == y.sin_port && x.sin_addr.s_addr == y.sin_addr.s_addr;
  }
  if (a.ss_family != AF_INET6) return false;
  const auto& x = reinterpret_cast<const sockaddr_in6&>(a);
  const auto& y = reinterpret_cast<const sockaddr_in6&>(b);
  return x.sin6_port == y.sin6_port && std::memcmp(&x.sin6_addr, &y.sin6_addr, sizeof x.sin6_addr) == 0;
}

bool is_connected(int fd, sockaddr_storage* local) {
  sockaddr_storage peer{};
  socklen_t local_length = sizeof *local, peer_length = sizeof peer;
  return ::getsockname(fd, reinterpret_cast<sockaddr*>(local), &local_length) == 0 &&
         ::getpeername(fd, reinterpret_cast<sockaddr*>(&peer), &peer_length) == 0;
}

// This process's connections that are bound to one of `local`, each with the index of that.
std::vector<std::pair<int, std::size_t>> connections_at(const std::vector<sockaddr_storage>& local) {
  std::vector<std::pair<int, std::size_t>> connections;
  DIR* folder = ::opendir("/proc/self/fd");
  if (folder == nullptr) return connections;
  while (const dirent* entry = ::readdir(folder)) {
    const int fd = std::atoi(entry->d_name);
    sockaddr_storage here{};
    if (fd <= 2 || !is_connected(fd, &here)) continue;
    const auto found =
        std::find_if(local.begin(), local.end(), [&](const auto& address) { return same(address, here); });
    if (found != local.end()) connections.emplace_back(fd, static_cast<std::size_t>(found - local.begin()));
  }
  ::closedir(folder);
  return connections;
}
}  // namespace

Mesh::Mesh(const std::shared_ptr<::gloo::transport::Device>& device, int rank, int size, milliseconds timeout)
    : rank_(rank),
      size_(size),
      sockets_(static_cast<std::size_t>(size), -1),
      handlers_(static_cast<std::size_t>(size), nullptr),
      peer_names_(static_cast<std::size_t>(size)) {
#if RODA_GLOO_TAKES_SOCKETS
  SocketAddress address;
  pairs_ = make_silent_pairs(device, rank, size, timeout, &address);
  connector_ = std::make_unique<Connector>(address, rank, size, timeout);
#else
  pairs_ = device->createContext(rank, size);
  pairs_->setTimeout(timeout);
  for (int peer = 0; peer < size_; ++peer) {
    if (peer != rank_) pairs_->createPair(peer);
  }
#endif
  context_ = std::make_shared<MeshContext>(rank, size, device, pairs_);
  context_->setTimeout(timeout);
}

Mesh::~Mesh() { forget_sockets(this); }

std::vector<char> Mesh::address(int peer) const { return pairs_->getPair(peer)->address().bytes(); }

std::vector<char> Mesh::card() const {
  if (connector_ != nullptr) return connector_->card();
  std::vector<char> card;
  for (int peer = 0; peer < size_; ++peer) {
    if (peer == rank_) continue;
    const std::vector<char> from = address(peer);
    card.resize(from.size() + kOwnBytes * static_cast<std::size_t>(size_ - 1));
    for_each_part(from.data(), from.size(), card.data(), peer,
                  [](const char* source, char* to, std::size_t bytes) { std::memcpy(to, source, bytes); });
  }
  return card;
}

void Mesh::connect(const std::function<const char*(int)>& card_of) {
#if RODA_GLOO_TAKES_SOCKETS
  std::vector<UniqueFd> connected = connector_->connect(card_of, is_poisoned_);
  connector_.reset();
  for (int peer = 0; peer < size_; ++peer) {
    if (peer == rank_) continue;
    UniqueFd& socket = connected[static_cast<std::size_t>(peer)];
    sockets_[static_cast<std::size_t>(peer)] = socket.get();
    try {
      dynamic_cast<SilentPair&>(*pairs_->getPair(peer)).take(std::move(socket));
    } catch (const std::exception& failure) {
      throw NoConnection(peer, failure.what());
    }
  }
  keep_sockets(sockets_);
#else
  for (int peer = 0; peer < size_; ++peer) {
    if (peer == rank_) continue;
    try {
      connect_pair(peer, card_of(peer));
    } catch (const std::exception& failure) {
      throw NoConnection(peer, failure.what());
    }
  }
  find_sockets();
#endif
}

void Mesh::keep_sockets(const std::vector<int>& sockets) {
  for (int peer = 0; peer < size_; ++peer) {
    const auto at = static_cast<std::size_t>(peer);
    if (peer == rank_) continue;
    handlers_[at] = dynamic_cast<::gloo::transport::tcp::Handler*>(pairs_->getPair(peer).get());
    if (sockets_[at] < 0) continue;
    tcp::unpace_if_local(sockets_[at]);
    peer_names_[at] = ::gloo::transport::tcp::Address::fromPeerName(sockets_[at]).str();
  }
  guard_sockets(this, sockets);
}

void Mesh::connect_pair(int peer, const char* card) {
  std::vector<char> theirs = address(peer);  // as long as the peer's
  for_each_part(theirs.data(), theirs.size(), card, rank_,
                [](char* to, const char* source, std::size_t bytes) { std::memcpy(to, source, bytes); });
  pairs_->getPair(peer)->connect(theirs);
}

void Mesh::find_sockets() {
  std::vector<sockaddr_storage> local;
  std::vector<std::size_t> peers;  // of `local`
  for (int peer = 0; peer < size_; ++peer) {
    if (peer == rank_) continue;
    const ::gloo::transport::Address& own = pairs_->getPair(peer)->address();
    if (const auto* tcp = dynamic_cast<const ::gloo::transport::tcp::Address*>(&own)) {
      local.push_back(tcp->getSockaddr());
      peers.push_back(static_cast<std::size_t>(peer));
    }
  }
  std::vector<int> found;
  std::vector<int> count(local.size(), 0);
  for (const auto& [socket, index] : connections_at(local)) {
    found.push_back(socket);
    sockets_[peers[index]] = ++count[index] == 1 ? socket : -1;
  }
  keep_sockets(found);
}

std::size_t Mesh::unread_bytes(int peer) const {
  int bytes = 0;
  return ::ioctl(socket(peer), FIONREAD, &bytes) == 0 ? static_cast<std::size_t>(bytes) : 0;
}

std::size_t Mesh::unsent_bytes(int peer) const {
  int bytes = 0;
  return ::ioctl(socket(peer), SIOCOUTQ, &bytes) == 0 ? static_cast<std::size_t>(bytes) : 0;
}

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

void Mesh::poison() noexcept {
  is_poisoned_ = true;
  try {
    // A receive that times out makes Gloo tear down every pair of the context and tell whatever waits on them: the one
    // way through its public interface to reach the buffers inside a running collective.
    char nothing = 0;
    context_->createUnboundBuffer(&nothing, sizeof nothing)->waitRecv(milliseconds(1));
  } catch (const std::exception&) {
    // The time-out itself.
  }
}

int Mesh::blame(const std::string& text) {
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

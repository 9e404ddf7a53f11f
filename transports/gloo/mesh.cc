#include "transports/gloo/mesh.h"

#include <gloo/transport/pair.h>
#include <gloo/transport/tcp/address.h>
#include <gloo/transport/unbound_buffer.h>
#include <linux/sockios.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <roda/sdk/error.hpp>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "plugins/base/foreign_sockets.h"
#include "plugins/base/socket.h"
#include "transports/gloo/sockets.h"
#include "transports/gloo/thread.h"

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

// A card: two bytes of length, then the contents.
void write_card(char* card, const void* data, std::size_t bytes) {
  if (bytes > Mesh::kCardBytes - 2) throw sdk::Failure(RODA_ERR_UNKNOWN, "an address of Gloo's is too long");
  card[0] = static_cast<char>(bytes & 0xff);
  card[1] = static_cast<char>(bytes >> 8);
  std::memcpy(card + 2, data, bytes);
}

std::vector<char> read_card(const char* card) {
  const std::size_t bytes = static_cast<unsigned char>(card[0]) + 256u * static_cast<unsigned char>(card[1]);
  if (bytes > Mesh::kCardBytes - 2) throw sdk::Failure(RODA_ERR_PRECONDITION, "a peer published a malformed address");
  return {card + 2, card + 2 + bytes};
}

}  // namespace

Mesh::Mesh(const std::shared_ptr<::gloo::transport::Device>& device, int rank, int size, milliseconds timeout)
    : rank_(rank),
      size_(size),
      pairs_(device->createContext(rank, size)),
      context_(std::make_shared<MeshContext>(rank, size, device, pairs_)),
      sockets_(static_cast<std::size_t>(size), -1),
      handlers_(static_cast<std::size_t>(size), nullptr),
      peer_names_(static_cast<std::size_t>(size)) {
  pairs_->setTimeout(timeout);
  context_->setTimeout(timeout);
  for (int peer = 0; peer < size_; ++peer) {
    if (peer != rank_) pairs_->createPair(peer);
  }
}

Mesh::~Mesh() { forget_sockets(this); }

std::vector<char> Mesh::addresses() const {
  std::vector<char> cards(kCardBytes * static_cast<std::size_t>(size_));
  for (int peer = 0; peer < size_; ++peer) {
    if (peer == rank_) continue;
    const std::vector<char> bytes = pairs_->getPair(peer)->address().bytes();
    write_card(&cards[kCardBytes * static_cast<std::size_t>(peer)], bytes.data(), bytes.size());
  }
  return cards;
}

void Mesh::connect(int peer, const char* card) { pairs_->getPair(peer)->connect(read_card(card)); }

std::vector<char> Mesh::endpoints() {
  std::vector<char> cards(kCardBytes * static_cast<std::size_t>(size_));
  std::vector<sockaddr_storage> local;
  std::vector<std::size_t> peers;  // of `local`
  for (int peer = 0; peer < size_; ++peer) {
    if (peer == rank_) continue;
    ::gloo::transport::Pair* pair = pairs_->getPair(peer).get();
    handlers_[static_cast<std::size_t>(peer)] = dynamic_cast<::gloo::transport::tcp::Handler*>(pair);
    const ::gloo::transport::Address& address = pair->address();
    const std::string text = address.str();
    write_card(&cards[kCardBytes * static_cast<std::size_t>(peer)], text.data(), text.size());
    if (const auto* tcp = dynamic_cast<const ::gloo::transport::tcp::Address*>(&address)) {
      local.push_back(tcp->getSockaddr());
      peers.push_back(static_cast<std::size_t>(peer));
    }
  }
  std::vector<int> found;
  std::vector<int> count(local.size(), 0);
  for (const auto& [socket, index] : connections_at(local)) {
    found.push_back(socket);
    tcp::unpace_if_local(socket);
    sockets_[peers[index]] = ++count[index] == 1 ? socket : -1;
  }
  guard_sockets(this, found);
  return cards;
}

void Mesh::name_peer(int peer, const char* card) {
  const std::vector<char> text = read_card(card);
  peer_names_[static_cast<std::size_t>(peer)].assign(text.begin(), text.end());
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

#include "tests/seeds/network.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <utility>

#include "tests/seeds/machine.h"
#include "tests/seeds/system.h"

namespace roda::seeds {
namespace {

using std::chrono::microseconds;

constexpr std::array<std::size_t, 5> kPieces{65536, 65536, 4096, 700, 60};
constexpr std::array<int, 4> kBuffers{0, 0, 16384, 4096};  // 0: the system's
constexpr microseconds kNextLook{60};                      // for room in a buffer

}  // namespace

// The two ends that face the network; [side] is joined to that side's socket.
struct Network::Stream {
  std::array<UniqueFd, 2> ends;
  std::array<std::vector<char>, 2> rest;  // read from that side, and no room for it at the other
  std::array<std::size_t, 2> unread{};    // bytes that have come to that side
  std::array<bool, 2> is_awake{}, is_over{};
  std::size_t piece = 65536;
  microseconds latency{20};
};

Network::~Network() = default;

void Network::add(int fd, Socket socket) {
  const auto at = static_cast<std::size_t>(fd);
  if (sockets_.size() <= at) sockets_.resize(at + 64);
  sockets_[at] = std::make_unique<Socket>(std::move(socket));
  sockets_[at]->rank = machine_.rank();
  machine_.own(fd);
}

int Network::socket() {
  const int fd = ::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK | EFD_SEMAPHORE);
  if (fd >= 0) add(fd, {});
  return fd;
}

int Network::bind(int fd, const sockaddr_in& address) {
  const std::uint16_t asked = ntohs(address.sin_port);
  find(fd)->port = asked != 0 ? asked : next_port_++;
  return 0;
}

// Readable while somebody waits to be accepted, as a socket is.
int Network::listen(int fd) {
  listeners_[find(fd)->port] = {.bell = fd, .callers = {}};
  return 0;
}

int Network::accept(int fd, sockaddr* peer, socklen_t* length) {
  std::uint64_t one = 0;
  Listener& listener = listeners_.at(find(fd)->port);
  if (::read(fd, &one, sizeof one) < 0) return -1;
  Listener::Caller caller = std::move(listener.callers.front());
  listener.callers.pop_front();
  const int accepted = caller.fd.release();
  add(accepted, {.port = find(fd)->port, .peer_port = caller.port, .stream = std::move(caller.stream), .side = 1});
  if (peer != nullptr) name(accepted, true, peer, length);
  return accepted;
}

int Network::connect(int fd, const sockaddr_in& address) {
  const std::uint16_t port = ntohs(address.sin_port);
  if (!listeners_.contains(port)) {
    errno = ECONNREFUSED;
    return -1;
  }
  auto stream = std::make_shared<Stream>();
  Draw& draw = machine_.draw();
  stream->piece = kPieces[draw_below(draw, kPieces.size())];
  stream->latency = microseconds(1 + draw_below(draw, draw_one_in(draw, 4) ? 3000 : 60));
  const int buffer = kBuffers[draw_below(draw, kBuffers.size())];
  std::array<UniqueFd, 2> own;
  for (std::size_t side = 0; side < 2; ++side) {
    int pair[2];
    if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, pair) != 0) return -1;
    own[side].reset(pair[0]);
    stream->ends[side].reset(pair[1]);
    for (const int end : pair) {
      if (buffer != 0) real_setsockopt(end, SOL_SOCKET, SO_SNDBUF, &buffer, sizeof buffer);
    }
  }
  if (close_under(fd, own[0].get()) < 0) return -1;
  const std::uint16_t from = next_port_++;
  *find(fd) = {.port = from, .peer_port = port, .stream = stream, .side = 0, .rank = machine_.rank()};
  const auto accepted = std::make_shared<UniqueFd>(std::move(own[1]));
  machine_.at(machine_.time() + stream->latency, [this, port, from, stream, accepted] {
    const auto listener = listeners_.find(port);
    if (listener == listeners_.end()) {
      stream->ends = {};
      return machine_.note_io();
    }
    listener->second.callers.push_back({std::move(*accepted), from, stream});
    const std::uint64_t one = 1;
    [[maybe_unused]] const ssize_t rung = ::write(listener->second.bell, &one, sizeof one);
  });
  return 0;
}

int Network::name(int fd, bool of_peer, sockaddr* address, socklen_t* length) const {
  const Socket& socket = *find(fd);
  if (of_peer && socket.stream == nullptr) {
    errno = ENOTCONN;
    return -1;
  }
  sockaddr_in name{};
  name.sin_family = AF_INET;
  name.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  name.sin_port = htons(of_peer ? socket.peer_port : socket.port);
  std::memcpy(address, &name, std::min<std::size_t>(*length, sizeof name));
  *length = sizeof name;
  return 0;
}

void Network::touched(int fd) {
  if (const Socket* const socket = find(fd); socket != nullptr && socket->stream != nullptr) {
    wake(socket->stream, socket->side);
  }
}

bool Network::is_empty(int fd) const {
  const Socket* const socket = find(fd);
  if (socket == nullptr || socket->stream == nullptr) return false;
  const auto side = static_cast<std::size_t>(socket->side);
  const Stream& stream = *socket->stream;
  return stream.unread[side] == 0 && !stream.is_over[1 - side] && stream.ends[side];
}

void Network::took(int fd, std::size_t bytes) {
  if (const Socket* const socket = find(fd); socket != nullptr && socket->stream != nullptr) {
    socket->stream->unread[static_cast<std::size_t>(socket->side)] -= bytes;
  }
}

void Network::forget(int fd) {
  Socket* const socket = find(fd);
  if (socket == nullptr) return;
  if (socket->stream != nullptr) {
    wake(socket->stream, socket->side);
  } else {
    listeners_.erase(socket->port);
  }
  sockets_[static_cast<std::size_t>(fd)].reset();
}

std::vector<int> Network::break_one() {
  std::vector<std::shared_ptr<Stream>> streams;
  for (const auto& socket : sockets_) {
    if (socket != nullptr && socket->stream != nullptr && socket->side == 1) streams.push_back(socket->stream);
  }
  if (streams.empty()) return {};
  const auto stream = streams[draw_below(machine_.draw(), streams.size())];
  std::vector<int> ranks;
  for (const auto& socket : sockets_) {
    if (socket != nullptr && socket->stream == stream) ranks.push_back(socket->rank);
  }
  stream->ends = {};
  machine_.note_io();
  return ranks;
}

void Network::wake(const std::shared_ptr<Stream>& stream, int side) {
  const auto at = static_cast<std::size_t>(side);
  if (std::exchange(stream->is_awake[at], true)) return;
  const bool is_held_up = draw_one_in(machine_.draw(), 40);
  const auto late = stream->latency + microseconds(draw_below(machine_.draw(), is_held_up ? 20'000 : 30));
  machine_.at(machine_.time() + late, [this, stream, side] { carry(stream, side); });
}

// From that side to the other.
void Network::carry(const std::shared_ptr<Stream>& stream, int side) {
  const auto at = static_cast<std::size_t>(side);
  const UniqueFd &from = stream->ends[at], &to = stream->ends[1 - at];
  std::vector<char>& rest = stream->rest[at];
  stream->is_awake[at] = false;
  if (!from || stream->is_over[at]) return;
  machine_.note_io();
  if (rest.empty()) {
    rest.resize(1 + draw_below(machine_.draw(), stream->piece));
    const ssize_t got = ::recv(from.get(), rest.data(), rest.size(), 0);
    rest.resize(static_cast<std::size_t>(std::max<ssize_t>(got, 0)));
    if (got < 0 && errno == EAGAIN) return;
    if (got <= 0) {
      stream->is_over[at] = true;
      ::shutdown(to.get(), SHUT_WR);
      if (stream->is_over[1 - at] || got < 0) stream->ends = {};
      return;
    }
  }
  const ssize_t sent = ::send(to.get(), rest.data(), rest.size(), MSG_NOSIGNAL);
  if (sent < 0 && errno != EAGAIN) {  // nobody is there any more
    stream->ends = {};
    return;
  }
  stream->unread[1 - at] += static_cast<std::size_t>(std::max<ssize_t>(sent, 0));
  rest.erase(rest.begin(), rest.begin() + std::max<ssize_t>(sent, 0));
  stream->is_awake[at] = true;
  const auto next = rest.empty() ? microseconds(1 + draw_below(machine_.draw(), 10)) : kNextLook;
  machine_.at(machine_.time() + next, [this, stream, side] { carry(stream, side); });
}

}  // namespace roda::seeds

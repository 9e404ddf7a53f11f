#include "plugins/base/socket.h"

#include <netinet/in.h>
#include <netinet/tcp.h>

#include <algorithm>
#include <cerrno>

#include "plugins/base/format.h"

namespace roda::tcp {

namespace {

constexpr int kBacklog = 4096;  // the kernel cuts it to net.core.somaxconn

// After a read or write that moved nothing: OK when the descriptor would block.
Status stream_status(const char* what) {
  if (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR) return {};
  const bool lost = errno == ECONNRESET || errno == EPIPE || errno == ETIMEDOUT || errno == EHOSTUNREACH;
  const Status plain = Status::of_errno(what);
  return lost ? Status::peer(-1, plain.message()) : plain;
}

Status open_socket(int family, UniqueFd* fd) {
  fd->reset(::socket(family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, IPPROTO_TCP));
  return *fd ? Status() : Status::of_errno("socket");
}

bool set_int(int fd, int level, int name, int value) {
  return ::setsockopt(fd, level, name, &value, sizeof value) == 0;
}

}  // namespace

Status listen_on(const SocketAddress& address, UniqueFd* listener, SocketAddress* bound) {
  UniqueFd fd;
  RODA_RETURN_IF_ERROR(open_socket(address.family(), &fd));
  set_int(fd.get(), SOL_SOCKET, SO_REUSEADDR, 1);
  if (address.family() == AF_INET6) set_int(fd.get(), IPPROTO_IPV6, IPV6_V6ONLY, 0);  // "::" is heard over IPv4, too
  if (::bind(fd.get(), address.get(), address.length) != 0) return Status::of_errno("bind to " + address.text());
  if (::listen(fd.get(), kBacklog) != 0) return Status::of_errno("listen on " + address.text());
  SocketAddress actual;
  actual.length = sizeof actual.storage;
  if (::getsockname(fd.get(), reinterpret_cast<sockaddr*>(&actual.storage), &actual.length) != 0) {
    return Status::of_errno("getsockname of " + address.text());
  }
  *listener = std::move(fd);
  *bound = actual;
  return {};
}

Status accept_one(int listener, UniqueFd* connection, SocketAddress* peer) {
  SocketAddress from;
  from.length = sizeof from.storage;
  auto* address = reinterpret_cast<sockaddr*>(&from.storage);
  connection->reset(::accept4(listener, address, &from.length, SOCK_NONBLOCK | SOCK_CLOEXEC));
  if (*connection) {
    *peer = from;
    return {};
  }
  // A connection that went away while it waited is as good as none.
  if (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR || errno == ECONNABORTED || errno == EPROTO) return {};
  return Status::of_errno("accept");
}

Status connect_start(const SocketAddress& peer, UniqueFd* connection) {
  UniqueFd fd;
  RODA_RETURN_IF_ERROR(open_socket(peer.family(), &fd));
  if (::connect(fd.get(), peer.get(), peer.length) != 0 && errno != EINPROGRESS && errno != EINTR) {
    return Status::of_errno("connect to " + peer.text());
  }
  *connection = std::move(fd);
  return {};
}

Status connect_test(int fd, bool* connected) {
  *connected = false;
  int error = 0;
  socklen_t length = sizeof error;
  if (::getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &length) != 0) error = errno;
  errno = error;
  if (error != 0) return Status::of_errno("connect");
  SocketAddress peer;
  peer.length = sizeof peer.storage;
  if (::getpeername(fd, reinterpret_cast<sockaddr*>(&peer.storage), &peer.length) == 0) {
    *connected = true;
  } else if (errno != ENOTCONN) {
    return Status::of_errno("connect");
  }
  return {};
}

Status set_options(int fd, std::chrono::milliseconds silence) {
  int ms = static_cast<int>(std::clamp<std::int64_t>(silence.count(), 1000, INT32_MAX));
  int probe_every = std::max(1, ms / 1000 / 4);
  bool ok = set_int(fd, IPPROTO_TCP, TCP_NODELAY, 1) && set_int(fd, SOL_SOCKET, SO_KEEPALIVE, 1) &&
            set_int(fd, IPPROTO_TCP, TCP_KEEPIDLE, probe_every) &&
            set_int(fd, IPPROTO_TCP, TCP_KEEPINTVL, probe_every) && set_int(fd, IPPROTO_TCP, TCP_KEEPCNT, 3) &&
            set_int(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, ms);
  return ok ? Status() : Status::of_errno("setsockopt");
}

bool ends_of(int fd, SocketAddress* here, SocketAddress* there) {
  here->length = there->length = sizeof here->storage;
  return ::getsockname(fd, reinterpret_cast<sockaddr*>(&here->storage), &here->length) == 0 &&
         ::getpeername(fd, reinterpret_cast<sockaddr*>(&there->storage), &there->length) == 0;
}

void unpace_if_local(int fd) {
  SocketAddress here, there;
  if (!ends_of(fd, &here, &there) || here.host() != there.host()) return;
  static constexpr char kName[] = "reno";  // part of every kernel
  ::setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, kName, sizeof kName - 1);
}

Status read_some(int fd, std::span<std::uint8_t> into, std::size_t* count, bool* end) {
  *count = 0;
  *end = false;
  const ssize_t got = ::recv(fd, into.data(), into.size(), 0);
  if (got < 0) return stream_status("recv");
  *count = static_cast<std::size_t>(got);
  *end = got == 0 && !into.empty();
  return {};
}

Status write_some(int fd, std::span<const std::uint8_t> from, std::size_t* count) {
  *count = 0;
  const ssize_t sent = ::send(fd, from.data(), from.size(), MSG_NOSIGNAL);
  if (sent < 0) return stream_status("send");
  *count = static_cast<std::size_t>(sent);
  return {};
}

}  // namespace roda::tcp

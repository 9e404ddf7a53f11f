#include "transports/gloo/fork_sockets.h"

#include <dirent.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <mutex>

namespace roda::gloo {
namespace {

struct GuardedSocket {
  const void* owner;
  int fd;
  sockaddr_storage local;
  sockaddr_storage peer;
};

// Never destroyed: a fork may happen while the process exits.
std::mutex& guard_mutex() {
  static auto& mutex = *new std::mutex();
  return mutex;
}
std::vector<GuardedSocket>& guarded() {
  static auto& sockets = *new std::vector<GuardedSocket>();
  return sockets;
}

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

bool endpoints(int fd, sockaddr_storage* local, sockaddr_storage* peer) {
  socklen_t local_length = sizeof *local, peer_length = sizeof *peer;
  return ::getsockname(fd, reinterpret_cast<sockaddr*>(local), &local_length) == 0 &&
         ::getpeername(fd, reinterpret_cast<sockaddr*>(peer), &peer_length) == 0;
}

void before_fork() { guard_mutex().lock(); }
void in_parent() { guard_mutex().unlock(); }
void in_child() {
  for (const GuardedSocket& socket : guarded()) {
    sockaddr_storage local{}, peer{};
    if (endpoints(socket.fd, &local, &peer) && same(local, socket.local) && same(peer, socket.peer)) ::close(socket.fd);
  }
  guard_mutex().unlock();
}

}  // namespace

std::vector<int> guard_sockets(const void* owner, const std::vector<sockaddr_storage>& local) {
  static const int registered = ::pthread_atfork(before_fork, in_parent, in_child);
  static_cast<void>(registered);
  std::vector<int> found(local.size(), -1), count(local.size(), 0);
  DIR* folder = ::opendir("/proc/self/fd");
  if (folder == nullptr) return found;
  std::lock_guard lock(guard_mutex());
  while (const dirent* entry = ::readdir(folder)) {
    const int fd = std::atoi(entry->d_name);
    sockaddr_storage here{}, there{};
    if (fd <= 2 || !endpoints(fd, &here, &there)) continue;
    const auto end = std::find_if(local.begin(), local.end(), [&](const auto& address) { return same(address, here); });
    if (end == local.end()) continue;
    const auto index = static_cast<std::size_t>(end - local.begin());
    found[index] = ++count[index] == 1 ? fd : -1;
    ::fcntl(fd, F_SETFD, FD_CLOEXEC);
    guarded().push_back({owner, fd, here, there});
  }
  ::closedir(folder);
  return found;
}

void forget_sockets(const void* owner) {
  std::lock_guard lock(guard_mutex());
  std::erase_if(guarded(), [owner](const GuardedSocket& socket) { return socket.owner == owner; });
}

}  // namespace roda::gloo

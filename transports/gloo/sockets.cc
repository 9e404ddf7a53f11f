#include "transports/gloo/sockets.h"

#include <dirent.h>
#include <netinet/in.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>

namespace roda::gloo {
namespace {

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

}  // namespace

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

}  // namespace roda::gloo

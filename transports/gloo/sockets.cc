#include "transports/gloo/sockets.h"

#include <dirent.h>
#include <netinet/in.h>
#include <netinet/tcp.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>

namespace roda::gloo {
namespace {

bool same_host(const sockaddr_storage& a, const sockaddr_storage& b) {
  if (a.ss_family != b.ss_family) return false;
  if (a.ss_family == AF_INET) {
    return reinterpret_cast<const sockaddr_in&>(a).sin_addr.s_addr ==
           reinterpret_cast<const sockaddr_in&>(b).sin_addr.s_addr;
  }
  return a.ss_family == AF_INET6 &&
         std::memcmp(&reinterpret_cast<const sockaddr_in6&>(a).sin6_addr,
                     &reinterpret_cast<const sockaddr_in6&>(b).sin6_addr, sizeof(in6_addr)) == 0;
}

// Only what identifies an endpoint: padding and flow labels don't. A port lies in the same place in both families.
bool same(const sockaddr_storage& a, const sockaddr_storage& b) {
  return same_host(a, b) &&
         reinterpret_cast<const sockaddr_in&>(a).sin_port == reinterpret_cast<const sockaddr_in&>(b).sin_port;
}

bool is_connected(int fd, sockaddr_storage* local, sockaddr_storage* peer) {
  socklen_t local_length = sizeof *local, peer_length = sizeof *peer;
  return ::getsockname(fd, reinterpret_cast<sockaddr*>(local), &local_length) == 0 &&
         ::getpeername(fd, reinterpret_cast<sockaddr*>(peer), &peer_length) == 0;
}

}  // namespace

std::vector<std::pair<int, std::size_t>> connections_at(const std::vector<sockaddr_storage>& local) {
  std::vector<std::pair<int, std::size_t>> connections;
  DIR* folder = ::opendir("/proc/self/fd");
  if (folder == nullptr) return connections;
  while (const dirent* entry = ::readdir(folder)) {
    const int fd = std::atoi(entry->d_name);
    sockaddr_storage here{}, there{};
    if (fd <= 2 || !is_connected(fd, &here, &there)) continue;
    const auto found =
        std::find_if(local.begin(), local.end(), [&](const auto& address) { return same(address, here); });
    if (found != local.end()) connections.emplace_back(fd, static_cast<std::size_t>(found - local.begin()));
  }
  ::closedir(folder);
  return connections;
}

void unpace_if_local(int socket) {
  sockaddr_storage here{}, there{};
  if (!is_connected(socket, &here, &there) || !same_host(here, there)) return;
  static constexpr char kName[] = "reno";  // part of every kernel
  ::setsockopt(socket, IPPROTO_TCP, TCP_CONGESTION, kName, sizeof kName - 1);
}

}  // namespace roda::gloo

// Connections are made by the first message: tests that begin with them talk once. And how many there are.
#pragma once

#include <dirent.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/socket.h>

#include <cstdlib>
#include <vector>

#include "tests/transports/thread_ranks.h"

namespace roda::transport_test {

// Connected sockets among this process's descriptors; only those without close-on-exec if asked.
inline int connections(bool inheritable_only) {
  int count = 0;
  DIR* folder = ::opendir("/proc/self/fd");
  while (const dirent* entry = ::readdir(folder)) {
    const int fd = std::atoi(entry->d_name);
    sockaddr_storage peer{};
    socklen_t length = sizeof peer;
    if (fd <= 2 || ::getpeername(fd, reinterpret_cast<sockaddr*>(&peer), &length) != 0) continue;
    if (peer.ss_family != AF_INET && peer.ss_family != AF_INET6) continue;
    if (!inheritable_only || (::fcntl(fd, F_GETFD) & FD_CLOEXEC) == 0) ++count;
  }
  ::closedir(folder);
  return count;
}

// A byte each way with every other member, all of whom do the same.
inline void talk(Member& member, int rank, int size) {
  std::vector<char> in(static_cast<std::size_t>(size));
  std::vector<roda_request*> requests;
  for (int peer = 0; peer < size; ++peer) {
    if (peer == rank) continue;
    roda_request *sent = nullptr, *received = nullptr;
    ASSERT_EQ(member.send(peer, 0, "t", 1, &sent), RODA_OK) << member.text();
    ASSERT_EQ(member.receive(peer, 0, &in[static_cast<std::size_t>(peer)], 1, &received), RODA_OK) << member.text();
    requests.insert(requests.end(), {sent, received});
  }
  for (roda_request* request : requests) ASSERT_EQ(member.wait(request), RODA_OK) << member.text();
}

}  // namespace roda::transport_test

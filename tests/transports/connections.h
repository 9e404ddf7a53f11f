// The connections that a process has.
#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>

namespace roda::transport_test {

// Connected sockets among this process's descriptors; only those without close-on-exec if asked.
inline int connections(bool inheritable_only) {
  int count = 0;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    const int fd = std::atoi(entry.path().filename().c_str());
    sockaddr_storage peer{};
    socklen_t length = sizeof peer;
    if (fd <= 2 || ::getpeername(fd, reinterpret_cast<sockaddr*>(&peer), &length) != 0) continue;
    if (peer.ss_family != AF_INET && peer.ss_family != AF_INET6) continue;
    if (!inheritable_only || (::fcntl(fd, F_GETFD) & FD_CLOEXEC) == 0) ++count;
  }
  return count;
}

// `in_child`: what the child does before it ends, as an exit handler might; the peers must not notice.
template <typename InChild>
void expect_no_connections_in_a_child(InChild&& in_child) {
  EXPECT_EQ(connections(true), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    const int inherited = connections(false);
    in_child();
    ::_exit(inherited);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
}

}  // namespace roda::transport_test

// Forked children hold none of Gloo's connections, and started programs inherit none.
#include <dirent.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <barrier>

#include "tests/transports/thread_ranks.h"
#include "transports/gloo/gloo.h"

namespace roda::transport_test {
namespace {

// Connected sockets among this process's descriptors; only those without close-on-exec if asked.
int connections(bool inheritable_only) {
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

TEST(GlooFork, ConnectionsStayInTheirProcess) {
  Board board;
  std::barrier formed(2), looked(2);
  run_ranks(2, [&](int rank) {
    Member member(roda_gloo_transport(), board, rank, 2);
    ASSERT_EQ(member.form(), RODA_OK) << member.text();
    formed.arrive_and_wait();
    if (rank == 0) {
      EXPECT_EQ(connections(false), 2);  // both ends of the one connection
      EXPECT_EQ(connections(true), 0);
      const pid_t child = ::fork();
      if (child == 0) ::_exit(connections(false));
      int status = 0;
      ASSERT_EQ(::waitpid(child, &status, 0), child);
      EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
    }
    looked.arrive_and_wait();
    // The parent's connection is none the worse.
    std::vector<float> data(1000, 1.0f);
    roda_request* request = nullptr;
    ASSERT_EQ(member.allreduce(data.data(), data.size(), 1, &request), RODA_OK);
    EXPECT_EQ(member.wait(request), RODA_OK) << member.text();
    EXPECT_EQ(data[0], 2.0f);
    formed.arrive_and_wait();
  });
}

}  // namespace
}  // namespace roda::transport_test

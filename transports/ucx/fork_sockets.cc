#include "transports/ucx/fork_sockets.h"

#include <fcntl.h>
#include <pthread.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>
#include <mutex>
#include <string>
#include <vector>

namespace roda::ucx {
namespace {

struct GuardedSocket {
  const void* owner;
  int fd;
  ino_t inode;
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

// 0: not a socket.
ino_t socket_inode(int fd) {
  struct stat state {};
  return ::fstat(fd, &state) == 0 && S_ISSOCK(state.st_mode) ? state.st_ino : 0;
}

void before_fork() { guard_mutex().lock(); }
void in_parent() { guard_mutex().unlock(); }
void in_child() {
  for (const GuardedSocket& socket : guarded()) {
    if (socket_inode(socket.fd) == socket.inode) ::close(socket.fd);
  }
  guarded().clear();
  guard_mutex().unlock();
}

// What an epoll descriptor watches. Sets of sets are two levels deep in UCX.
void collect(int event_fd, int depth, std::vector<int>* sockets) {
  std::ifstream info("/proc/self/fdinfo/" + std::to_string(event_fd));
  for (std::string line; std::getline(info, line);) {
    if (line.rfind("tfd:", 0) != 0) continue;
    const int fd = std::stoi(line.substr(4));
    if (socket_inode(fd) != 0) {
      sockets->push_back(fd);
    } else if (depth > 0) {
      collect(fd, depth - 1, sockets);
    }
  }
}

}  // namespace

void guard_sockets(const void* owner, int event_fd) {
  static const int registered = ::pthread_atfork(before_fork, in_parent, in_child);
  static_cast<void>(registered);
  std::vector<int> sockets;
  collect(event_fd, 3, &sockets);
  std::lock_guard lock(guard_mutex());
  std::erase_if(guarded(), [owner](const GuardedSocket& socket) { return socket.owner == owner; });
  for (const int fd : sockets) {
    ::fcntl(fd, F_SETFD, FD_CLOEXEC);
    guarded().push_back({owner, fd, socket_inode(fd)});
  }
}

void forget_sockets(const void* owner) {
  std::lock_guard lock(guard_mutex());
  std::erase_if(guarded(), [owner](const GuardedSocket& socket) { return socket.owner == owner; });
}

}  // namespace roda::ucx

#include "plugins/base/foreign_sockets.h"

#include <fcntl.h>
#include <pthread.h>
#include <sys/stat.h>
#include <unistd.h>

#include "plugins/base/mutex.h"

namespace roda {
namespace {

struct GuardedSocket {
  const void* owner;
  int fd;
  unsigned long inode;
};

// Held across fork, so that the child finds the list whole. Never destroyed: forks happen until the very end.
Mutex& guard_mutex() {
  static auto& mutex = *new Mutex();
  return mutex;
}
std::vector<GuardedSocket>& guarded() RODA_REQUIRES(guard_mutex()) {
  static auto& sockets = *new std::vector<GuardedSocket>();
  return sockets;
}

void before_fork() RODA_ACQUIRE(guard_mutex()) { guard_mutex().lock(); }
void in_parent() RODA_RELEASE(guard_mutex()) { guard_mutex().unlock(); }
void in_child() RODA_RELEASE(guard_mutex()) {
  for (const GuardedSocket& socket : guarded()) {
    if (socket_inode(socket.fd) == socket.inode) ::close(socket.fd);
  }
  guarded().clear();
  guard_mutex().unlock();
}

void drop(const void* owner) RODA_REQUIRES(guard_mutex()) {
  std::erase_if(guarded(), [owner](const GuardedSocket& socket) { return socket.owner == owner; });
}

}  // namespace

unsigned long socket_inode(int fd) {
  struct stat state {};
  return ::fstat(fd, &state) == 0 && S_ISSOCK(state.st_mode) ? state.st_ino : 0;
}

void guard_sockets(const void* owner, const std::vector<int>& fds) {
  static const int registered = ::pthread_atfork(before_fork, in_parent, in_child);
  static_cast<void>(registered);
  const MutexLock lock(guard_mutex());
  drop(owner);
  for (const int fd : fds) {
    const unsigned long inode = socket_inode(fd);
    if (inode == 0) continue;
    ::fcntl(fd, F_SETFD, FD_CLOEXEC);
    guarded().push_back({owner, fd, inode});
  }
}

void forget_sockets(const void* owner) {
  const MutexLock lock(guard_mutex());
  drop(owner);
}

}  // namespace roda

#include "plugins/base/fork_guard.h"

#include <fcntl.h>
#include <pthread.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>

#include "plugins/base/mutex.h"

namespace roda {

namespace {

struct Guarded {
  int fd;
  const void* owner = nullptr;  // null: a ForkGuard
  unsigned long inode = 0;      // of a library's socket
};

// Held across fork, so that the child finds the list whole. Never destroyed: forks happen until the very end.
struct Registry {
  Mutex mutex;
  std::vector<Guarded> all RODA_GUARDED_BY(mutex);
  int null_fd = -1;
  std::atomic<bool> is_child{false};
};

Registry& registry() {
  static Registry* instance = new Registry;
  return *instance;
}

void before_fork() RODA_ACQUIRE(registry().mutex) { registry().mutex.lock(); }
void after_fork_in_parent() RODA_RELEASE(registry().mutex) { registry().mutex.unlock(); }

void after_fork_in_child() RODA_RELEASE(registry().mutex) {
  const int null_fd = registry().null_fd;
  for (const Guarded& each : registry().all) {
    if (each.owner != nullptr ? socket_inode(each.fd) == each.inode
                              : null_fd < 0 || ::dup3(null_fd, each.fd, O_CLOEXEC) < 0) {
      ::close(each.fd);
    }
  }
  registry().all.clear();
  registry().is_child.store(true, std::memory_order_relaxed);
  registry().mutex.unlock();
}

}  // namespace

void watch_forks() {
  static const bool installed = [] {
    registry().null_fd = ::open("/dev/null", O_RDWR | O_CLOEXEC);
    return pthread_atfork(before_fork, after_fork_in_parent, after_fork_in_child) == 0;
  }();
  static_cast<void>(installed);
}

ForkGuard::ForkGuard(int fd) : fd_(fd) {
  watch_forks();
  const MutexLock lock(registry().mutex);
  registry().all.push_back({fd});
}

ForkGuard::~ForkGuard() {
  if (fd_ < 0) return;
  const MutexLock lock(registry().mutex);
  auto& all = registry().all;
  const auto at = std::find_if(all.begin(), all.end(),
                               [this](const Guarded& each) { return each.fd == fd_ && each.owner == nullptr; });
  if (at != all.end()) all.erase(at);
}

bool is_forked_child() { return registry().is_child.load(std::memory_order_relaxed); }

unsigned long socket_inode(int fd) {
  struct stat state {};
  return ::fstat(fd, &state) == 0 && S_ISSOCK(state.st_mode) ? state.st_ino : 0;
}

void guard_sockets(const void* owner, const std::vector<int>& fds) {
  watch_forks();
  forget_sockets(owner);
  const MutexLock lock(registry().mutex);
  for (const int fd : fds) {
    const unsigned long inode = socket_inode(fd);
    if (inode == 0) continue;
    ::fcntl(fd, F_SETFD, FD_CLOEXEC);
    registry().all.push_back({fd, owner, inode});
  }
}

void forget_sockets(const void* owner) {
  const MutexLock lock(registry().mutex);
  std::erase_if(registry().all, [owner](const Guarded& each) { return each.owner == owner; });
}

}  // namespace roda

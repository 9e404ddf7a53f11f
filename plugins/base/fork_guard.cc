#include "plugins/base/fork_guard.h"

#include <fcntl.h>
#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <utility>
#include <vector>

#include "plugins/base/mutex.h"

namespace roda {

namespace {

// Held across fork, so that the child finds the list whole. Never destroyed: forks happen until the very end.
struct Registry {
  Mutex mutex;
  std::vector<int> fds RODA_GUARDED_BY(mutex);
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
  Registry& r = registry();
  for (int fd : registry().fds) {
    if (r.null_fd < 0 || ::dup3(r.null_fd, fd, O_CLOEXEC) < 0) ::close(fd);
  }
  registry().fds.clear();
  r.is_child.store(true, std::memory_order_relaxed);
  registry().mutex.unlock();
}

void install_once() {
  static const bool installed = [] {
    registry().null_fd = ::open("/dev/null", O_RDWR | O_CLOEXEC);
    return pthread_atfork(before_fork, after_fork_in_parent, after_fork_in_child) == 0;
  }();
  static_cast<void>(installed);
}

}  // namespace

ForkGuard::ForkGuard(int fd) : fd_(fd) {
  install_once();
  std::lock_guard lock(registry().mutex);
  registry().fds.push_back(fd);
}

ForkGuard::ForkGuard(ForkGuard&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}

ForkGuard& ForkGuard::operator=(ForkGuard&& other) noexcept {
  std::swap(fd_, other.fd_);
  return *this;
}

ForkGuard::~ForkGuard() {
  if (fd_ < 0) return;
  std::lock_guard lock(registry().mutex);
  auto& fds = registry().fds;
  auto at = std::find(fds.begin(), fds.end(), fd_);
  if (at != fds.end()) fds.erase(at);
}

bool is_forked_child() { return registry().is_child.load(std::memory_order_relaxed); }

}  // namespace roda

#include "transports/shm/context.h"

#include <roda/abi/host.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>
#include <roda/sdk/error.hpp>

#include <algorithm>
#include <atomic>
#include <bit>
#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "transports/shm/cma.h"
#include "transports/shm/group.h"

namespace roda::shm {

namespace {

sdk::Failure system_failure(const std::string& what) {
  return {RODA_ERR_SYSTEM, "shm: " + what + ": " + std::strerror(errno)};
}

const char* knob(const roda_host* host, const char* name) {
  return host != nullptr && host->knob != nullptr ? host->knob(host->self, name) : nullptr;
}

std::size_t number(const roda_host* host, const char* name, std::size_t standard, std::size_t least, std::size_t most) {
  const char* text = knob(host, name);
  return text == nullptr ? standard : std::clamp<std::size_t>(std::strtoull(text, nullptr, 10), least, most);
}

}  // namespace

Context::Context(const roda_host* host) : host_(host), owner_(::getpid()) {
  read_settings();
  bell_.reset(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  epoll_.reset(::epoll_create1(EPOLL_CLOEXEC));
  if (!bell_ || !epoll_) throw system_failure("creating an event descriptor");
  bell_guard_ = ForkGuard(bell_.get());
  epoll_guard_ = ForkGuard(epoll_.get());
  watch(bell_.get(), nullptr);
}

void Context::read_settings() {
  settings_.force_posix = number(host_, "RODA_SHM_FORCE_POSIX", 0, 0, 1) != 0;
  settings_.cma = number(host_, "RODA_SHM_CMA", 1, 0, 1) != 0;
  settings_.ring_bytes = static_cast<std::uint32_t>(
      std::bit_floor(number(host_, "RODA_SHM_RING_BYTES", settings_.ring_bytes, 4 << 10, 64 << 20)));
  settings_.eager_bytes = number(host_, "RODA_SHM_EAGER_BYTES", settings_.eager_bytes, 0, 1 << 20);
  settings_.heap_bytes = number(host_, "RODA_SHM_HEAP_BYTES", settings_.heap_bytes, 2 << 20, std::size_t{1} << 40);
  std::string reason = "RODA_SHM_CMA=0";
  if (!settings_.cma || !cma_allowed(&reason)) {
    settings_.cma = false;
    log(RODA_LOG_INFO, "no cross-memory attach, private memory is copied twice: " + reason);
  }
}

// Windows over private memory work without cross-memory attach too, by way of the rings, but then others serve better.
std::uint64_t Context::capabilities() const {
  return settings_.cma ? kCapabilities : kCapabilities & ~std::uint64_t{RODA_CAP_WINDOW_ANY};
}

bool Context::in_owner() const { return ::getpid() == owner_; }

void Context::log(int level, const std::string& text) const {
  if (host_ != nullptr && host_->log != nullptr) host_->log(host_->self, level, "shm", text.c_str());
}

void Context::remove(Group* group) { std::erase(groups_, group); }

void Context::watch(int fd, Peer* peer) {
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.ptr = peer;
  if (::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event) != 0) throw system_failure("watching a descriptor");
}

void Context::unwatch(int fd) {
  epoll_event unused{};
  (void)::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, fd, &unused);
}

void Context::ring_own_bell() {
  const std::uint64_t one = 1;
  // Fails only when the counter is at its limit, and then the descriptor is readable anyway.
  [[maybe_unused]] ssize_t written = ::write(bell_.get(), &one, sizeof one);
}

int Context::progress() {
  int handled = 0;
  for (std::size_t i = 0; i < groups_.size(); ++i) handled += groups_[i]->progress();
  return handled;
}

bool Context::arm() {
  std::uint64_t count = 0;
  [[maybe_unused]] ssize_t taken = ::read(bell_.get(), &count, sizeof count);
  if (find_deaths()) return false;
  for (Group* group : groups_) group->set_sleeping(true);
  armed_ = true;
  std::atomic_thread_fence(std::memory_order_seq_cst);  // see Peer::wake
  for (Group* group : groups_) {
    if (group->has_news()) {
      disarm();
      return false;
    }
  }
  return true;
}

void Context::disarm() {
  if (!armed_) return;
  armed_ = false;
  for (Group* group : groups_) group->set_sleeping(false);
}

// The bell and mailboxes are read elsewhere; what is left are the processes that died.
bool Context::find_deaths() {
  epoll_event events[8];
  int count = ::epoll_wait(epoll_.get(), events, 8, 0);
  bool found = false;
  for (int i = 0; i < count; ++i) {
    auto peer = static_cast<Peer*>(events[i].data.ptr);
    if (peer == nullptr) continue;
    found = true;
    peer->group->peer_died(*peer);
  }
  return found;
}

}  // namespace roda::shm

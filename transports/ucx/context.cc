#include "transports/ucx/context.h"

#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>
#include <roda/sdk/error.hpp>

#include <algorithm>

#include "transports/ucx/group.h"

namespace roda::ucx {

Context::Context(const roda_host*)
    : owner_(::getpid()),
      bell_(sdk::check_system(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK), "ucx: eventfd")),
      epoll_(sdk::check_system(::epoll_create1(EPOLL_CLOEXEC), "ucx: epoll_create1")),
      bell_guard_(bell_.get()),
      epoll_guard_(epoll_.get()) {
  watch(bell_.get());
}

const Library& Context::library(Reach reach, int expected_peers) {
  std::unique_ptr<Library>& library = libraries_[reach == Reach::kHost ? 0 : 1];
  if (library == nullptr) library = std::make_unique<Library>(reach, expected_peers);
  return *library;
}

bool Context::in_owner() const { return ::getpid() == owner_; }

void Context::remove(Group* group) { std::erase(groups_, group); }

void Context::watch(int fd) {
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.fd = fd;
  sdk::check_system(::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event), "ucx: watching a descriptor");
}

void Context::unwatch(int fd) {
  epoll_event unused{};
  static_cast<void>(::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, fd, &unused));
}

void Context::ring() {
  const std::uint64_t one = 1;
  // Fails only when the counter is at its limit, and then the descriptor is readable anyway.
  [[maybe_unused]] const ssize_t written = ::write(bell_.get(), &one, sizeof one);
}

std::uint32_t Context::memory_kinds(int /*device*/) const {
  const auto lacks_cuda = [](const auto& library) {
    return library != nullptr && !library->handles(UCS_MEMORY_TYPE_CUDA);
  };
  const bool has_any = std::any_of(libraries_.begin(), libraries_.end(), [](const auto& l) { return l != nullptr; });
  const bool takes_cuda = has_any && std::none_of(libraries_.begin(), libraries_.end(), lacks_cuda);
  return 1u << RODA_MEMORY_HOST | (takes_cuda ? 1u << RODA_MEMORY_CUDA : 0u);
}

int Context::progress() {
  int handled = 0;
  for (std::size_t i = 0; i < groups_.size(); ++i) handled += groups_[i]->progress();
  return handled;
}

bool Context::settle() {
  bool settled = true;
  for (Group* group : groups_) settled = group->settle() && settled;
  return settled;
}

bool Context::arm() {
  std::uint64_t count = 0;
  [[maybe_unused]] const ssize_t taken = ::read(bell_.get(), &count, sizeof count);
  armed_ = std::all_of(groups_.begin(), groups_.end(), [](Group* group) { return group->arm(); });
  return armed_;
}

}  // namespace roda::ucx

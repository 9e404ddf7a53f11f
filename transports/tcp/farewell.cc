#include "transports/tcp/farewell.h"

#include <linux/sockios.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <iterator>
#include <utility>

#include "plugins/base/status.h"
#include "transports/tcp/context.h"

namespace roda::tcp_transport {

namespace {

constexpr std::chrono::seconds kPatience{1};
constexpr int kLookMs = 5;
// Peers that never close are forgotten in the order of their leaving.
constexpr std::size_t kMostKept = 4096;

}  // namespace

FarewellList::One::One(FarewellList& list, UniqueFd fd, std::vector<std::byte> rest)
    : list_(list), fd_(std::move(fd)), guard_(fd_.get()), rest_(std::move(rest)) {}

FarewellList::One::~One() {
  if (!is_forked_child()) list_.context_.unwatch(fd_.get());
}

void FarewellList::One::on_event(std::uint32_t) {
  if (step()) list_.remove(*this);
}

bool FarewellList::One::step() {
  while (written_ < rest_.size()) {
    const ssize_t sent = ::send(fd_.get(), rest_.data() + written_, rest_.size() - written_, MSG_NOSIGNAL);
    if (sent < 0 && (errno == EAGAIN || errno == EINTR)) break;
    if (sent < 0) return true;
    written_ += static_cast<std::size_t>(sent);
  }
  if (written_ == rest_.size() && !std::exchange(is_shut_, true)) static_cast<void>(::shutdown(fd_.get(), SHUT_WR));
  while (true) {
    const ssize_t got = ::recv(fd_.get(), list_.context_.scratch(), Context::kScratchBytes, 0);
    if (got > 0 || (got < 0 && errno == EINTR)) continue;
    return got == 0 ? is_shut_ : errno != EAGAIN;
  }
}

bool FarewellList::One::is_delivered() const {
  int waiting = 0;
  return is_shut_ && ::ioctl(fd_.get(), SIOCOUTQ, &waiting) == 0 && waiting == 0;
}

void FarewellList::add(UniqueFd fd, std::vector<std::byte> rest) {
  while (all_.size() >= kMostKept) all_.pop_front();
  const int number = fd.get();
  One& one = all_.emplace_back(*this, std::move(fd), std::move(rest));
  try {
    context_.watch_again(number, one);
  } catch (const sdk::Failure&) {
    all_.pop_back();
    return;
  }
  if (one.step()) all_.pop_back();
}

void FarewellList::remove(One& one) {
  all_.remove_if([&](const One& other) { return &other == &one; });
}

FarewellList::~FarewellList() {
  const auto deadline = std::chrono::steady_clock::now() + kPatience;
  while (!is_forked_child()) {
    std::erase_if(all_, [](One& one) { return one.step() || one.is_delivered(); });
    if (all_.empty() || std::chrono::steady_clock::now() > deadline) break;
    static_cast<void>(::poll(nullptr, 0, kLookMs));
  }
}

}  // namespace roda::tcp_transport

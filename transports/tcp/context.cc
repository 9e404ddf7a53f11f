#include "transports/tcp/context.h"

#include <linux/sockios.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <roda/sdk/transport.hpp>

#include <cerrno>
#include <chrono>
#include <utility>

#include "transports/tcp/group.h"
#include "transports/tcp/messages.h"

namespace roda::tcp_transport {
namespace {

constexpr std::chrono::seconds kFarewellLimit{1};
constexpr int kLookMs = 5;
// Peers that never close are forgotten in the order of their leaving.
constexpr std::size_t kMostKept = 4096;

constexpr std::size_t kMostDirect = 2;          // connections that are read without being asked for
constexpr std::uint32_t kTurnsPerHarvest = 16;  // and so often epoll is asked all the same
constexpr int kEvents = 64;
constexpr long kTickNs = 250'000'000;  // while operations are pending, their deadlines are looked at this often

// No probe: every Linux has TCP. Addresses are looked for when a group forms.
constexpr std::uint64_t kCapabilities = RODA_CAP_P2P | RODA_CAP_FAULT_TOLERANT;
constexpr roda_transport kTransport =
    sdk::transport<Context, Group, kCapabilities>("tcp", "TCP connections of our own", RODA_PROGRESS_FD);

}  // namespace

// A connection that this side is done with. Closing it at once could lose what was sent last: the kernel throws it away
// when the peer writes once more. So it is read until the peer closes too.
class Farewell final : public Watched {
 public:
  Farewell(Context& context, UniqueFd fd, std::vector<std::byte> rest)
      : context_(context), fd_(std::move(fd)), guard_(fd_.get()), rest_(std::move(rest)) {
    context_.watch(fd_.get(), *this);
  }
  ~Farewell() {
    if (!is_forked_child()) context_.unwatch(fd_.get());
  }
  void on_event(std::uint32_t) override {
    if (step()) context_.forget(*this);
  }
  // True when the connection is over, or broken.
  bool step() {
    while (written_ < rest_.size()) {
      const ssize_t sent = ::send(fd_.get(), rest_.data() + written_, rest_.size() - written_, MSG_NOSIGNAL);
      if (sent < 0 && (errno == EAGAIN || errno == EINTR)) break;
      if (sent < 0) return true;
      written_ += static_cast<std::size_t>(sent);
    }
    if (written_ == rest_.size() && !std::exchange(is_shut_, true)) static_cast<void>(::shutdown(fd_.get(), SHUT_WR));
    while (true) {
      const ssize_t got = ::recv(fd_.get(), context_.scratch(), Context::kScratchBytes, 0);
      if (got > 0 || (got < 0 && errno == EINTR)) continue;
      return got == 0 ? is_shut_ : errno != EAGAIN;
    }
  }
  // Nothing that was sent waits for the peer's kernel.
  bool is_delivered() const {
    int waiting = 0;
    return is_shut_ && ::ioctl(fd_.get(), SIOCOUTQ, &waiting) == 0 && waiting == 0;
  }

 private:
  Context& context_;
  UniqueFd fd_;
  ForkGuard guard_;
  std::vector<std::byte> rest_;
  std::size_t written_ = 0;
  bool is_shut_ = false;
};

Context::Context(const roda_host* host)
    : host_(host),
      settings_(sdk::read_settings(kSettings, host)),
      ticker_(sdk::check_system(::timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK), "tcp: timerfd_create")),
      ticker_guard_(ticker_.get()),
      scratch_(std::make_unique_for_overwrite<std::byte[]>(kScratchBytes)),
      connector_(*this) {
  sdk::expect_ok(open(), "tcp");
  sdk::expect_ok(EventSet::watch(ticker_.get(), nullptr, EPOLLIN), "tcp");
}

Context::~Context() {
  const auto deadline = std::chrono::steady_clock::now() + kFarewellLimit;
  while (!is_forked_child()) {
    std::erase_if(farewells_, [](Farewell& one) { return one.step() || one.is_delivered(); });
    if (farewells_.empty() || std::chrono::steady_clock::now() > deadline) break;
    static_cast<void>(::poll(nullptr, 0, kLookMs));
  }
}

void Context::see_off(UniqueFd fd, std::vector<std::byte> rest) {
  while (farewells_.size() >= kMostKept) farewells_.pop_front();
  try {
    if (farewells_.emplace_back(*this, std::move(fd), std::move(rest)).step()) farewells_.pop_back();
  } catch (const sdk::Failure&) {  // it can't be watched
  }
}

void Context::forget(const Farewell& over) {
  farewells_.remove_if([&](const Farewell& one) { return &one == &over; });
}

Group* Context::find(const Digest& id) {
  const auto found = std::find_if(groups_.begin(), groups_.end(), [&](Group* group) { return group->id() == id; });
  return found != groups_.end() ? *found : nullptr;
}

void Context::fail_all(const std::string& reason) {
  for (Group* group : groups_) {
    const std::int32_t rank = group->state().world_rank(group->state().rank());
    group->fail({RODA_ERR_SYSTEM, "tcp: rank " + std::to_string(rank) + " " + reason, rank});
  }
}

std::size_t Context::most_lanes() const {
  std::size_t most = 0;
  for (const Group* group : groups_) most += settings_.lanes * static_cast<std::size_t>(group->state().size());
  return most;
}

int Context::progress() {
  int handled = GroupList::progress();
  if (!dirty_.empty()) handled += flush_dirty();
  ++turns_;
  const bool direct = polls_directly();
  if (!direct || turns_ % kTurnsPerHarvest == 0) harvest();
  // After the harvest, which takes what would have woken a sleeper: this may be the last look before a sleep.
  handled += connector_.progress();
  if (direct) handled += read_hot();
  if (!readable_.empty()) {
    handled += each_in_turn(&readable_, &Lane::is_readable, [this](Lane& lane) { return read(lane); });
  }
  if (!dirty_.empty()) handled += flush_dirty();
  return handled;
}

// With nothing expected anywhere there is nothing to read either; what comes all the same may wait some turns.
bool Context::polls_directly() const {
  if (waits_ > 0) return false;
  std::size_t lanes = 0;
  for (const Peer* peer : hot_) lanes += peer->lanes_to_poll();
  return lanes <= kMostDirect;
}

bool Context::harvest() {
  epoll_event events[kEvents];
  const int count = ::epoll_wait(event_fd(), events, kEvents, 0);
  bool found = false;
  for (int i = 0; i < count; ++i) {
    auto* what = static_cast<Watched*>(events[i].data.ptr);
    if (what == nullptr) continue;  // the bell or the ticker: arm() sees to them
    what->on_event(events[i].events);
    found = true;
  }
  return found;
}

// A read may end what was expected, and so change the list.
int Context::read_hot() {
  int handled = 0;
  for (std::size_t i = 0; i < hot_.size(); ++i) {
    const Peer& peer = *hot_[i];
    for (std::size_t lane = 0; lane < peer.lanes_to_poll(); ++lane) {
      handled += read(*peer.lanes[lane]);
      if (i >= hot_.size() || hot_[i] != &peer) break;
    }
  }
  return handled;
}

int Context::read(Lane& lane) {
  Group& group = *lane.peer().group;
  try {
    return lane.read();
  } catch (const sdk::Failure& failure) {
    group.fail(failure);
    return 1;
  }
}

bool Context::arm() {
  clear_rings();
  std::uint64_t ticks = 0;
  [[maybe_unused]] const ssize_t taken = ::read(ticker_.get(), &ticks, sizeof ticks);
  set_ticking();
  const bool busy = !readable_.empty() || !dirty_.empty() || connector_.has_news() ||
                    std::any_of(groups_.begin(), groups_.end(), [](Group* group) { return group->has_news(); });
  if (!busy && !harvest() && readable_.empty() && dirty_.empty()) return true;
  return false;
}

// Runs only while a time limit is being waited for.
void Context::set_ticking() {
  const bool wanted =
      std::any_of(groups_.begin(), groups_.end(), [](Group* group) { return group->watches_the_clock(); });
  if (wanted == is_ticking_) return;
  is_ticking_ = wanted;
  itimerspec times{};
  if (wanted) times.it_value.tv_nsec = times.it_interval.tv_nsec = kTickNs;
  static_cast<void>(::timerfd_settime(ticker_.get(), 0, &times, nullptr));
}

}  // namespace roda::tcp_transport

const roda_transport* roda_tcp_transport() { return &roda::tcp_transport::kTransport; }

#include "transports/tcp/context.h"

#include <sys/epoll.h>
#include <sys/timerfd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "plugins/base/local_address.h"
#include "transports/tcp/group.h"
#include "transports/tcp/lane.h"
#include "transports/tcp/peer.h"

namespace roda::tcp_transport {

namespace {

constexpr std::size_t kMostDirect = 2;          // connections that are read without being asked for
constexpr std::uint32_t kTurnsPerHarvest = 16;  // and so often epoll is asked all the same
constexpr int kEvents = 64;
constexpr long kTickNs = 250'000'000;  // while operations are pending, their deadlines are looked at this often

}  // namespace

Context::Context(const roda_host* host)
    : host_(host),
      settings_(sdk::read_settings(kSettings, host)),
      ticker_(sdk::check_system(::timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK), "tcp: timerfd_create")),
      ticker_guard_(ticker_.get()),
      scratch_(std::make_unique_for_overwrite<std::byte[]>(kScratchBytes)),
      farewells_(*this),
      connector_(*this) {
  expect_ok(events_.open());
  expect_ok(events_.watch(ticker_.get(), nullptr, EPOLLIN));
}

Context::~Context() = default;

void Context::expect_ok(const Status& status) {
  if (!status.ok()) throw sdk::Failure(status.code(), "tcp: " + status.message(), status.rank());
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

void Context::remove(Group& group) { std::erase(groups_, &group); }

std::optional<std::vector<SocketAddress>> Context::addresses(bool one_host) {
  const bool is_ours = !settings_.interfaces.empty();
  const std::string& interfaces = is_ours ? settings_.interfaces : settings_.gloo_interfaces;
  if (interfaces.empty() && one_host) return loopback_addresses();
  if (interfaces.empty()) {
    if (!name_lookup_.finished()) return std::nullopt;
    return network_addresses(name_lookup_.addresses());
  }
  std::vector<SocketAddress> named = addresses_of_interfaces(interfaces);
  if (!named.empty()) return named;
  throw sdk::Failure(RODA_ERR_UNAVAILABLE,
                     std::string("tcp: ") + (is_ours ? "RODA_TCP_IFACE" : "HOROVOD_GLOO_IFACE") + "=" + interfaces +
                         " names no usable interface. Interfaces that are up: " + interfaces_up());
}

void Context::watch(int fd, Watched& what) {
  constexpr auto kEdges = static_cast<std::uint32_t>(EPOLLIN | EPOLLOUT | EPOLLRDHUP) | std::uint32_t{EPOLLET};
  expect_ok(events_.watch(fd, &what, kEdges));
}

void Context::watch_again(int fd, Watched& what) {
  unwatch(fd);
  watch(fd, what);
}

void Context::mark_readable(Lane& lane) {
  if (!std::exchange(lane.is_readable, true)) readable_.push_back(&lane);
}

void Context::mark_dirty(Lane& lane) {
  if (!std::exchange(lane.is_dirty, true)) dirty_.push_back(&lane);
}

void Context::forget(Lane& lane) {
  for (auto* list : {&readable_, &dirty_}) std::erase(*list, &lane);
  std::replace(turn_.begin(), turn_.end(), &lane, static_cast<Lane*>(nullptr));
}

void Context::see_off(UniqueFd fd, std::vector<std::byte> rest) { farewells_.add(std::move(fd), std::move(rest)); }

int Context::progress() {
  int handled = 0;
  for (std::size_t i = 0; i < groups_.size(); ++i) handled += groups_[i]->progress();
  handled += connector_.progress();
  if (!dirty_.empty()) handled += flush_dirty();
  ++turns_;
  const bool direct = polls_directly();
  if (!direct || turns_ % kTurnsPerHarvest == 0) harvest();
  if (direct) handled += read_hot();
  if (!readable_.empty()) handled += read_readable();
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
  const int count = ::epoll_wait(events_.fd(), events, kEvents, 0);
  bool found = false;
  for (int i = 0; i < count; ++i) {
    auto* what = static_cast<Watched*>(events[i].data.ptr);
    if (what == nullptr) continue;  // the bell or the ticker: arm() sees to them
    what->on_event(events[i].events);
    found = true;
  }
  return found;
}

int Context::flush_dirty() {
  int moved = 0;
  turn_.swap(dirty_);
  for (std::size_t i = 0; i < turn_.size(); ++i) {
    if (turn_[i] == nullptr) continue;
    turn_[i]->is_dirty = false;
    moved += turn_[i]->flush();
  }
  turn_.clear();
  return moved;
}

int Context::read_readable() {
  int handled = 0;
  turn_.swap(readable_);
  for (std::size_t i = 0; i < turn_.size(); ++i) {
    if (turn_[i] == nullptr) continue;
    turn_[i]->is_readable = false;
    handled += read(*turn_[i]);
  }
  turn_.clear();
  return handled;
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
  events_.clear_rings();
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

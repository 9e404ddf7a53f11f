#include "tests/seeds/machine.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <stdexcept>
#include <utility>

#include "tests/seeds/system.h"

namespace roda::seeds {
namespace {

Machine* current = nullptr;

constexpr std::size_t kSwitchOneIn = 6;  // of the system's calls
constexpr Time kMostOfAStep = std::chrono::microseconds(4), kMostOfABurial = std::chrono::milliseconds(20);

}  // namespace

Machine::Machine(std::uint64_t seed) : draw_(seed), cheap_(seed * 2 + 1) { current = this; }

Machine::~Machine() { current = nullptr; }

Machine* Machine::now_running() { return current; }

Machine::Rank& Machine::rank_at(int rank) {
  const auto at = static_cast<std::size_t>(rank + 1);  // -1: nobody's, of the world itself
  if (ranks_.size() <= at) ranks_.resize(at + 1);
  return ranks_[at];
}

Fiber* Machine::start(int rank, std::function<void()> body) {
  rank_at(rank);
  return fibers_.emplace_back(std::make_unique<Fiber>(rank, std::move(body))).get();
}

void Machine::at(Time when, std::function<void()> event, bool is_net) {
  events_.emplace(when, Event{std::move(event), is_net});
}

bool Machine::may_run(const Fiber& fiber) {
  const Rank& rank = rank_at(fiber.rank);
  return !fiber.has_ended && rank.stopped_until <= time_ && (!rank.is_dead || is_burying_);
}

void Machine::fire_due() {
  while (!events_.empty() && events_.begin()->first <= time_) {
    const auto event = std::move(events_.begin()->second.what);
    events_.erase(events_.begin());
    event();
  }
}

// Those whose descriptors are ready, or whose time has come, are rung.
void Machine::find_ready() {
  for (const auto& fiber : fibers_) {
    if (fiber->is_asleep && (fiber->until <= time_ || is_burying_)) fiber->is_rung = true;
  }
  if (!std::exchange(io_has_changed_, false)) return;
  polled_.clear();
  for (const auto& fiber : fibers_) {
    if (!fiber->is_asleep || fiber->is_rung || fiber->has_ended) continue;
    polled_.insert(polled_.end(), fiber->descriptors.begin(), fiber->descriptors.end());
  }
  if (polled_.empty() || real_poll(polled_) <= 0) return;
  auto next = polled_.begin();
  for (const auto& fiber : fibers_) {
    if (!fiber->is_asleep || fiber->is_rung || fiber->has_ended) continue;
    const auto end = next + static_cast<std::ptrdiff_t>(fiber->descriptors.size());
    fiber->is_rung = std::any_of(next, end, [](const pollfd& p) { return p.revents != 0; });
    next = end;
  }
}

Fiber* Machine::choose() {
  std::size_t sum = 0;
  for (const auto& fiber : fibers_) {
    if (may_run(*fiber) && (!fiber->is_asleep || fiber->is_rung)) sum += rank_at(fiber->rank).weight;
  }
  if (sum == 0) return nullptr;
  std::size_t at = draw_below(draw_, sum);
  for (const auto& fiber : fibers_) {
    if (!may_run(*fiber) || (fiber->is_asleep && !fiber->is_rung)) continue;
    const std::size_t weight = rank_at(fiber->rank).weight;
    if (at < weight) return fiber.get();
    at -= weight;
  }
  return nullptr;
}

// All sleep: to the next thing that is due. False: only nets are, or nothing at all.
bool Machine::jump() {
  Time next = Time::max();
  // While a rank is stopped, nets serve the others.
  const bool has_stopped = std::ranges::any_of(ranks_, [this](const Rank& r) { return r.stopped_until > time_; });
  for (const auto& fiber : fibers_) {
    if (fiber->has_ended || (rank_at(fiber->rank).is_dead && !is_burying_)) continue;
    const Time stopped = rank_at(fiber->rank).stopped_until;
    if (stopped > time_) next = std::min(next, stopped);
    if (stopped <= time_ && (!fiber->is_net || has_stopped)) next = std::min(next, fiber->until);
  }
  for (const auto& [when, event] : events_) {
    if (!event.is_net || has_stopped) next = std::min(next, when);
  }
  if (next == Time::max()) return false;
  time_ = std::max(time_, next);
  return true;
}

void Machine::fall_into_net() {
  Time next = Time::max();
  for (const auto& fiber : fibers_) {
    if (!fiber->has_ended && fiber->is_asleep && may_run(*fiber)) next = std::min(next, fiber->until);
  }
  if (!events_.empty()) next = std::min(next, events_.begin()->first);
  if (next != Time::max()) time_ = std::max(time_, next);
}

bool Machine::step() {
  is_asleep_ = false;
  while (true) {
    fire_due();
    find_ready();
    if (Fiber* const fiber = choose()) {
      run(fiber);
      return true;
    }
    const bool is_over = std::ranges::none_of(
        fibers_, [this](const auto& f) { return !f->has_ended && (!rank_at(f->rank).is_dead || is_burying_); });
    if (is_over) return false;
    if (jump()) continue;
    is_asleep_ = true;
    return false;
  }
}

void Machine::run(Fiber* fiber) {
  ++steps_;
  cheap_ = cheap_ * 6364136223846793005u + 1442695040888963407u;
  const Time most = is_burying_ ? kMostOfABurial : kMostOfAStep;  // nobody's deadline is to be waited for any more
  time_ += Time(static_cast<std::int64_t>((cheap_ >> 33) % static_cast<std::uint64_t>(most.count())));
  fiber->is_asleep = fiber->is_rung = fiber->is_net = false;
  running_ = fiber;
  fiber->enter();
  running_ = nullptr;
  if (fiber->has_ended) ring(fiber, SIZE_MAX);
}

void Machine::may_switch() {
  if (running_ == nullptr || running_->locks > 0) return;
  cheap_ = cheap_ * 6364136223846793005u + 1442695040888963407u;
  if ((cheap_ >> 33) % kSwitchOneIn == 0) running_->leave();
}

void Machine::yield() {
  if (running_->locks == 0) running_->leave();
}

bool Machine::sleep(std::span<pollfd> descriptors, const void* address, Time until, bool is_net) {
  Fiber& self = *running_;
  self.descriptors = descriptors;
  self.address = address;
  self.until = until;
  self.is_net = is_net;
  self.is_asleep = true;
  io_has_changed_ = true;
  self.leave();
  self.descriptors = {};
  self.address = nullptr;
  return time_ < until || is_burying_;
}

void Machine::ring(const void* address, std::size_t most) {
  for (const auto& fiber : fibers_) {
    if (most == 0) return;
    if (!fiber->is_asleep || fiber->address != address) continue;
    fiber->is_rung = true;
    fiber->address = nullptr;
    --most;
  }
}

void Machine::own(int fd) {
  if (fd < 0 || running_ == nullptr) return;
  if (owner_.size() <= static_cast<std::size_t>(fd)) owner_.resize(static_cast<std::size_t>(fd) + 64, -1);
  owner_[static_cast<std::size_t>(fd)] = running_->rank;
}

void Machine::disown(int fd) {
  if (fd >= 0 && static_cast<std::size_t>(fd) < owner_.size()) owner_[static_cast<std::size_t>(fd)] = -1;
}

// Numbers stay taken, since the rank's objects will close them when they are buried.
void Machine::kill(int rank) {
  rank_at(rank).is_dead = true;
  const int nothing = ::open("/dev/null", O_RDWR | O_CLOEXEC);
  if (nothing < 0) throw std::runtime_error("/dev/null can't be opened");
  for (std::size_t fd = 0; fd < owner_.size(); ++fd) {
    if (owner_[fd] != rank) continue;
    network_.forget(static_cast<int>(fd));
    close_under(static_cast<int>(fd), nothing);
  }
  ::close(nothing);
  note_io();
}

}  // namespace roda::seeds

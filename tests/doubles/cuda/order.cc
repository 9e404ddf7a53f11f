#include "tests/doubles/cuda/order.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <utility>

#include "tests/doubles/cuda/double.h"

namespace roda::cuda_double {
namespace {

struct Findings {
  std::mutex guard;
  bool are_kept = false;  // guarded, like the rest
  int count = 0;
  char last[400] = {};
  int fault = 0, chosen = 0, met = 0;
};
Findings& findings() {
  static auto* the_one = new Findings;
  return *the_one;
}

}  // namespace

bool Clock::covers(const Clock& other) const {
  for (Actor actor = 0; actor < other.times_.size(); ++actor) {
    if (of(actor) < other.times_[actor]) return false;
  }
  return true;
}

void Clock::join(const Clock& other) {
  if (times_.size() < other.times_.size()) times_.resize(other.times_.size());
  for (Actor actor = 0; actor < other.times_.size(); ++actor) {
    times_[actor] = std::max(times_[actor], other.times_[actor]);
  }
}

std::uint64_t Clock::tick(Actor actor) {
  if (times_.size() <= actor) times_.resize(actor + 1);
  return ++times_[actor];
}

// Never destroyed: streams' threads may outlive main.
Order& Order::get() {
  static auto* the_one = new Order;
  return *the_one;
}

Actor Order::add_stream() {
  const std::lock_guard lock(guard_);
  streams_.emplace_back();
  return streams_.size() + 1;
}

Work Order::put(Actor stream, const char* what, int device) {
  const std::lock_guard lock(guard_);
  Stream& on = streams_[stream - 2];
  on.before = on.clock;
  sides_[side_of_thread()].tick(side_of_thread());
  on.clock.join(sides_[side_of_thread()]);
  const std::uint64_t time = on.clock.tick(stream);
  return {{stream, time, what}, on.clock, device};
}

void Order::wait(Actor stream, const Clock& event) {
  const std::lock_guard lock(guard_);
  streams_[stream - 2].clock.join(event);
}

Clock Order::reached(Actor stream) {
  const std::lock_guard lock(guard_);
  return streams_[stream - 2].clock;
}

Clock Order::recorded(Actor stream, bool early) {
  const std::lock_guard lock(guard_);
  const Stream& on = streams_[stream - 2];
  Clock clock = early ? on.before : on.clock;
  clock.join(sides_[side_of_thread()]);
  return clock;
}

void Order::observe(const Clock& clock) {
  const std::lock_guard lock(guard_);
  sides_[side_of_thread()].join(clock);
  sides_[kEngine].join(clock);
}

bool Order::is_observed(const Clock& clock) {
  const std::lock_guard lock(guard_);
  return sides_[side_of_thread()].covers(clock);
}

void Order::join_sides() {
  const std::lock_guard lock(guard_);
  sides_[kProgram].join(sides_[kEngine]);
}

Work Order::here(const char* what) {
  if (running() != nullptr) return *running();
  const std::lock_guard lock(guard_);
  const Actor side = side_of_thread();
  const std::uint64_t time = sides_[side].tick(side);
  if (side == kProgram) sides_[kEngine].join(sides_[kProgram]);
  return {{side, time, what}, sides_[side], -1};
}

void Order::take_turn(const void* thing, const char* what) {
  const Work work = here(what);
  std::string mistake;
  {
    const std::lock_guard lock(guard_);
    Access& last = last_turns_[thing];
    if (last.time > work.clock.of(last.actor)) {
      mistake = describe(work.self) + " (" + what + ") comes behind nothing that is behind " + describe(last) +
                ": two operations of one communicator";
    }
    last = work.self;
  }
  if (!mistake.empty()) report(mistake);
  count_overlaps(work, false);
}

void Order::count_overlaps(const Work& work, bool copies) {
  const std::lock_guard lock(guard_);
  if (!counts_overlaps_) return;
  for (const Work& other : copies ? turns_ : copies_) {
    const bool is_behind = work.clock.of(other.self.actor) >= other.self.time;
    const bool is_before = other.clock.of(work.self.actor) >= work.self.time;
    overlaps_ += is_behind || is_before ? 0 : 1;
  }
  (copies ? copies_ : turns_).push_back(work);
}

unsigned Order::overlaps(bool counts) {
  const std::lock_guard lock(guard_);
  counts_overlaps_ = counts;
  turns_.clear();
  copies_.clear();
  return std::exchange(overlaps_, 0);
}

Actor& side_of_thread() {
  thread_local Actor side = kEngine;
  return side;
}

const Work*& running() {
  thread_local const Work* work = nullptr;
  return work;
}

std::string describe(const Access& access) {
  const std::string what = access.what;
  if (access.actor == kEngine) return what + " by the engine";
  if (access.actor == kProgram) return what + " by the program";
  return what + " on stream " + std::to_string(access.actor);
}

void report(const std::string& mistake) {
  Findings& all = findings();
  const std::lock_guard lock(all.guard);
  ++all.count;
  std::snprintf(all.last, sizeof all.last, "%s", mistake.c_str());
  if (all.are_kept) return;
  std::fprintf(stderr, "CUDA double: MISTAKE: %s\n", mistake.c_str());
  std::fflush(nullptr);
  std::abort();
}

bool is_left_out(int fault, bool is_needed) {
  Findings& all = findings();
  const std::lock_guard lock(all.guard);
  if (all.fault != fault || !is_needed) return false;
  ++all.met;
  return all.chosen == 0 || all.met == all.chosen;
}

}  // namespace roda::cuda_double

using namespace roda::cuda_double;

#define RODA_DOUBLE extern "C" __attribute__((visibility("default")))

RODA_DOUBLE void roda_cuda_double_keep_mistakes(int keeps) {
  const std::lock_guard lock(findings().guard);
  findings().are_kept = keeps != 0;
}
RODA_DOUBLE int roda_cuda_double_mistakes(char* last, unsigned capacity) {
  const std::lock_guard lock(findings().guard);
  std::snprintf(last, capacity, "%s", findings().last);
  const int count = findings().count;
  findings().count = 0;
  return count;
}
RODA_DOUBLE int roda_cuda_double_seed(int fault, int which) {
  const std::lock_guard lock(findings().guard);
  const int met = findings().met;
  findings().fault = fault;
  findings().chosen = which;
  findings().met = 0;
  return met;
}
RODA_DOUBLE void roda_cuda_double_set_program(int is_program) {
  side_of_thread() = is_program != 0 ? kProgram : kEngine;
}
RODA_DOUBLE void roda_cuda_double_join() { Order::get().join_sides(); }
RODA_DOUBLE unsigned roda_cuda_double_overlaps(int counts) { return Order::get().overlaps(counts != 0); }
RODA_DOUBLE void roda_cuda_double_take_turn(const void* thing, const char* what) {
  Order::get().take_turn(thing, what);
}

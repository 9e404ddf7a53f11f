// The machine that the ranks of a seed run on: its threads, its clock, who runs next, and what a thread sleeps on.
//
// Threads are fibers of one real thread. They are switched where they call the system, which system.cc answers in the
// system's place: so engines, stores, transports and their locks run as they are. Time is virtual. It passes a little
// with each step, and where all sleep it jumps to the next thing that is due. Who runs, and how much time passes,
// follows from the seed alone.
#pragma once

#include <poll.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "tests/seeds/draw.h"
#include "tests/seeds/fiber.h"
#include "tests/seeds/network.h"

namespace roda::seeds {

using Time = std::chrono::nanoseconds;  // since the machine was booted

// A sleep at least as long is a net under wake-ups that were missed: a job that goes well never needs one.
inline constexpr std::chrono::milliseconds kNet{200};

class Machine {
 public:
  explicit Machine(std::uint64_t seed);
  ~Machine();
  Machine(const Machine&) = delete;
  Machine& operator=(const Machine&) = delete;
  // The one that runs; null: the system's own calls are the system's.
  static Machine* now_running();

  // --- whoever plays ---
  Fiber* start(int rank, std::function<void()> body);
  void set_weight(int rank, std::size_t weight) { rank_at(rank).weight = weight; }
  // At that time, outside of every fiber. `is_net`: a job that goes well never needs it.
  void at(Time when, std::function<void()> event, bool is_net = false);
  // One step. False: all fibers that may run have ended, or all sleep and nothing would wake them but a net.
  bool step();
  bool all_asleep() const { return is_asleep_; }  // the latter
  // That sleep goes on until the next net.
  void fall_into_net();
  // The rank's fibers do not run until then.
  void stop(int rank, Time until) { rank_at(rank).stopped_until = until; }
  bool is_stopped(int rank) const { return ranks_[static_cast<std::size_t>(rank + 1)].stopped_until > time_; }
  // They never run again, and what others see of its descriptors is what they see of a process that has ended.
  void kill(int rank);
  // They run on, from where they were, to their end.
  void bury() { is_burying_ = true; }
  bool is_burying() const { return is_burying_; }

  Time time() const { return time_; }
  std::uint64_t steps() const { return steps_; }
  Draw& draw() { return draw_; }

  // --- what the system is asked for, by the fiber that runs ---
  Fiber* fiber() const { return running_; }
  int rank() const { return running_ == nullptr ? -1 : running_->rank; }
  // Now and then another fiber runs first.
  void may_switch();
  void yield();
  // Until one of the descriptors is ready, somebody rings the address, or that time. True: not for the time.
  bool sleep(std::span<pollfd> descriptors, const void* address, Time until, bool is_net);
  void ring(const void* address, std::size_t most);
  void note_io() { io_has_changed_ = true; }
  void note_sent(int fd) {
    note_io();
    network_.touched(fd);
  }
  // The descriptor ends with the rank.
  void own(int fd);
  void disown(int fd);
  std::size_t owned() const { return owner_.size() - static_cast<std::size_t>(std::ranges::count(owner_, -1)); }
  Network& network() { return network_; }

 private:
  struct Rank {
    std::size_t weight = 4;
    Time stopped_until{};
    bool is_dead = false;
  };
  Rank& rank_at(int rank);
  bool may_run(const Fiber& fiber);
  void fire_due();
  void find_ready();
  Fiber* choose();
  bool jump();
  void run(Fiber* fiber);

  Draw draw_;
  Network network_{*this};
  std::uint64_t cheap_;
  Time time_{std::chrono::hours(1)};
  std::uint64_t steps_ = 0;
  std::vector<std::unique_ptr<Fiber>> fibers_;
  std::vector<Rank> ranks_;
  struct Event {
    std::function<void()> what;
    bool is_net;
  };
  std::multimap<Time, Event> events_;
  std::vector<int> owner_;  // [descriptor] rank, -1: nobody
  std::vector<pollfd> polled_;
  Fiber* running_ = nullptr;
  bool io_has_changed_ = true;
  bool is_asleep_ = false;
  bool is_burying_ = false;
};

}  // namespace roda::seeds

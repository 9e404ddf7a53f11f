// How a waiting rank spends its time: spin while every rank of the host has a core, yield when ranks outnumber cores.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <span>
#include <string>

namespace roda {

// Cores' worth of time that the CPU controllers of this process's control groups grant, version 1 or 2, the least of
// all levels; 0: no limit. /proc and /sys lie below `root`, which tests replace.
double cgroup_cpu_limit(const std::string& root = "");

// Where this process may run. Plain data: ranks of a host exchange it, because ranks that are bound to one core each
// have more than one core between them.
struct CoreBudget {
  std::array<std::uint64_t, 16> cores{};  // bit i: core i is in the affinity mask
  double quota = 0;                       // cores' worth of time that the cgroup grants, 0: no limit
};

CoreBudget core_budget();

// Cores that processes with these budgets have between them, at least 1: the union of the masks, cut by the smallest
// quota (ranks of one container share it).
int cores_of(std::span<const CoreBudget> budgets);

// A value; any thread.
class WaitPolicy {
 public:
  // One rank alone on this process's own budget.
  WaitPolicy() : WaitPolicy(true) {}
  explicit WaitPolicy(bool spins) : spins_(spins) {}
  WaitPolicy(int ranks_on_host, int cores) : spins_(ranks_on_host <= cores) {}

  bool spins() const { return spins_; }

  // One turn of a waiting loop; `iteration` counts from 0. A few nanoseconds when spinning, a yield of the core when
  // not, and now and then when spinning for long, because other threads want to run too.
  void relax(std::uint32_t iteration) const {
    if (spins_ && (iteration & (kPausesPerYield - 1)) != kPausesPerYield - 1) {
      pause();
    } else {
      yield();
    }
  }

  // False: nothing came for so long that sleeping on a descriptor is the better wait (tens of microseconds of spinning,
  // a few yields).
  bool worth_spinning(std::uint32_t iteration) const { return iteration < (spins_ ? kMostPauses : kMostYields); }

  // A wait whose end rings nothing: milliseconds to the next look, after so many in vain. They grow with the wait to a
  // few hundredths of it, so that many who wait for one rank leave the cores to it.
  static int look_ms(std::uint32_t looks) { return static_cast<int>(std::min(1 + looks / 8, kMostLookMs)); }

  static void yield();
  static void pause() {
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    asm volatile("yield" ::: "memory");
#endif
  }

 private:
  static constexpr std::uint32_t kPausesPerYield = 2048;
  static constexpr std::uint32_t kMostPauses = 4096;
  static constexpr std::uint32_t kMostYields = 64;
  static constexpr std::uint32_t kMostLookMs = 32;

  bool spins_;
};

}  // namespace roda

#include "tools/perf/flag.h"

#include <pthread.h>
#include <sched.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <limits>
#include <thread>

#include "tools/perf/measure.h"
#include "tools/perf/statistics.h"

namespace roda::perf {
namespace {

using Flag = std::atomic<std::uint64_t>;

// From here on no cache is shared.
constexpr double kFarFlagUs = 0.15;

constexpr int kRounds = 100, kBatches = 50;
constexpr double kMostUs = 20'000;  // where others work on these cores
constexpr std::uint64_t kEnd = std::numeric_limits<std::uint64_t>::max();

bool bind_to(int core) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(static_cast<std::size_t>(core), &set);
  return ::pthread_setaffinity_np(::pthread_self(), sizeof set, &set) == 0;
}

// The best batch: in the others somebody else had one of the cores.
double best_of(Flag& there, Flag& back) {
  double best = std::numeric_limits<double>::max();
  std::uint64_t value = 0;
  const double begin = now_us();
  for (int batch = 0; batch < kBatches && now_us() - begin < kMostUs; ++batch) {
    const double start = now_us();
    for (int round = 0; round < kRounds; ++round) {
      there.store(++value, std::memory_order_release);
      while (back.load(std::memory_order_acquire) != value) {
      }
    }
    best = std::min(best, (now_us() - start) / kRounds);
  }
  return best;
}

double between(int core, int other) {
  alignas(128) Flag there{0};
  alignas(128) Flag back{0};
  std::atomic<int> bound{0}, failed{0};
  double best = 0;
  const auto enter = [&](int where) {
    if (!bind_to(where)) ++failed;
    ++bound;
    while (bound.load() < 2) std::this_thread::yield();
    return failed.load() == 0;
  };
  std::thread answers([&] {
    if (!enter(other)) return;
    for (std::uint64_t value = 0; value != kEnd;) {
      value = there.load(std::memory_order_acquire);
      back.store(value, std::memory_order_release);
    }
  });
  std::thread asks([&] {
    if (!enter(core)) return;
    best = best_of(there, back);
    there.store(kEnd, std::memory_order_release);
  });
  asks.join();
  answers.join();
  return best;
}

}  // namespace

Cores find_cores(const Session& session) {
  const int other = static_cast<int>(max_over_ranks(session.rank() == 1 ? ::sched_getcpu() : -1));
  const int core = ::sched_getcpu();
  if (session.rank() != 0 || other < 0 || roda_local_size() != session.size()) return {};
  if (core == other) return {"same", 0};
  const double flag_us = between(core, other);
  return {flag_us <= 0 ? "-" : flag_us < kFarFlagUs ? "near" : "far", flag_us};
}

}  // namespace roda::perf

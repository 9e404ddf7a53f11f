// What the hot path costs: one signal, one look at a signal, one window_map, and a signal's round trip between two
// ranks that spin. Nanoseconds.
//
//   shm_latency
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <new>
#include <vector>

#include "transports/shm/bench/rank.h"

namespace roda::shm_bench {
namespace {

constexpr int kCalls = 100'000;
constexpr std::uint64_t kTurns = 50'000;

double now_ns() {
  return std::chrono::duration<double, std::nano>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// The fastest of several batches, per call: others use this machine too.
template <typename F>
double per_call(F f) {
  double best = 1e18;
  for (int batch = 0; batch < 20; ++batch) {
    const double start = now_ns();
    for (int i = 0; i < kCalls / 20; ++i) f(i);
    best = std::min(best, (now_ns() - start) / (kCalls / 20));
  }
  return best;
}

void calls(Rank& r) {
  r.meet();
  if (r.rank == 0) {
    std::uint64_t value = 0;
    std::printf("signal to one peer   %6.1f\n", per_call([&](int) { r.signal_one(1, 5, ++value); }));
    std::printf("signal_value         %6.1f\n", per_call([&](int) { r.value_of(1, 6); }));
    std::printf("window_map           %6.1f\n", per_call([&](int) { r.map(1, 0); }));
    std::printf("window_open          %6.1f\n", per_call([&](int) { r.reopen(); }));
    std::printf("progress             %6.1f\n", per_call([&](int) { r.progress(); }));
  }
  r.meet();
}

void round_trips(Rank& r) {
  std::vector<double> times;
  r.meet();
  for (std::uint64_t turn = 1; turn <= kTurns; ++turn) {
    const double start = now_ns();
    if (r.rank == 0) r.signal(7, turn);
    r.wait(7, turn);
    if (r.rank == 1) r.signal(7, turn);
    times.push_back(now_ns() - start);
  }
  std::sort(times.begin(), times.end());
  if (r.rank == 0) std::printf("signal round trip    %6.1f (median)\n", times[times.size() / 2]);
}

void work(Board& board, int rank) {
  Rank r(board, rank, 2, 1 << 20);
  calls(r);
  round_trips(r);
}

}  // namespace
}  // namespace roda::shm_bench

int main() {
  using roda::shm_bench::Board;
  void* at = ::mmap(nullptr, sizeof(Board), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (at == MAP_FAILED) return 1;
  auto board = new (at) Board{};
  const pid_t child = ::fork();
  if (child == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    roda::shm_bench::work(*board, 1);
    ::_exit(0);
  }
  roda::shm_bench::work(*board, 0);
  int status = 0;
  ::waitpid(child, &status, 0);
  return status != 0;
}

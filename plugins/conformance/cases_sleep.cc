// Sleeping on the descriptor, and costing nothing while idle.
#include <poll.h>
#include <time.h>

#include "plugins/conformance/kit.h"

namespace roda::conformance {
namespace {

void busy_ns(std::int64_t ns) {
  for (const std::int64_t end = now_ns() + ns; now_ns() < end;) {
  }
}

// Rank 0 answers after a pause that changes, so that the others' arming meets the ring at every distance.
void wake_ups(Env& env) {
  constexpr int kRounds = 400;
  Group group(env, "wake_ups");
  int ball = 0;
  for (int round = 0; round < kRounds; ++round) {
    if (group.rank() == 0) {
      for (int peer = 1; peer < group.size(); ++peer) {
        busy_ns(round % 40 * 1000);
        group.wait(group.send(peer, 1, &round, sizeof round));
        group.wait(group.receive(peer, 2, &ball, sizeof ball));
        CHECK(ball == round, "round %d came back as %d", round, ball);
      }
    } else {
      group.wait(group.receive(0, 1, &ball, sizeof ball));
      group.wait(group.send(0, 2, &ball, sizeof ball));
    }
  }
  env.barrier();
}

void signal_wake_ups(Env& env) {
  constexpr std::uint64_t kRounds = 400;
  Group group(env, "signal_wake_ups");
  for (std::uint64_t round = 1; round <= kRounds; ++round) {
    for (int peer = group.rank() == 0 ? 1 : 0; peer < (group.rank() == 0 ? group.size() : 1); ++peer) {
      if (group.rank() == 0) busy_ns(static_cast<std::int64_t>(round % 40) * 1000);
      if (group.rank() == 0) group.signal(peer, 0, round);
      group.wait_signal(peer, 0, round);
      if (group.rank() != 0) group.signal(peer, 0, round);
    }
  }
  env.barrier();
}

std::int64_t cpu_ns() {
  timespec time{};
  ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return std::int64_t{time.tv_sec} * 1'000'000'000 + time.tv_nsec;
}

// In 0.2 s with nothing in flight.
int awakenings_of(Env& env) {
  int awakenings = 0;
  for (const std::int64_t end = now_ns() + 200'000'000; now_ns() < end;) {
    while (env.table().progress(env.context()) > 0) ++awakenings;
    if (env.table().arm(env.context()) == RODA_AGAIN) {
      ++awakenings;
      continue;
    }
    pollfd waiting{env.table().event_fd(env.context()), POLLIN, 0};
    if (::poll(&waiting, 1, 50) > 0) ++awakenings;
    if (env.table().disarm != nullptr) env.table().disarm(env.context());
  }
  return awakenings;
}

// A formed group with nothing in flight: once its events are taken, the descriptor stays silent and no thread is busy.
// Now and then a library looks whether its peers are alive: one of a few looks must find silence.
void idle(Env& env) {
  constexpr int kLooks = 3;
  Group group(env, "idle");
  if (env.table().progress_mode == RODA_PROGRESS_POLL) throw CaseSkipped("polled only while operations are in flight");
  env.barrier();
  int awakenings = 0;
  std::int64_t cpu = 0;
  bool is_busy = true;
  for (int look = 0; look < kLooks && is_busy; ++look) {
    const std::int64_t before = cpu_ns();
    awakenings = awakenings_of(env);
    cpu = cpu_ns() - before;
    // Half a core would be a spinning thread; the ranks of an in-process transport share the figure.
    is_busy = awakenings > 3 || (cpu >= 100'000'000 && !env.has(RODA_CAP_IN_PROCESS));
  }
  CHECK(!is_busy, "%d awakenings and %d ms of CPU time in 0.2 s with nothing in flight, and no less before", awakenings,
        static_cast<int>(cpu / 1'000'000));
  env.barrier();
}

}  // namespace

const std::vector<Case> kSleepCases = {
    {"sleep.wake_ups", "no message's wake-up is lost", RODA_CAP_P2P, 2, wake_ups},
    {"sleep.signal_wake_ups", "no signal's wake-up is lost", RODA_CAP_SIGNAL, 2, signal_wake_ups},
    {"sleep.idle", "an idle group wakes nobody and burns nothing", 0, 1, idle},
};

}  // namespace roda::conformance

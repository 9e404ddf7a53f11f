// Trials of a link between two threads.
#include "core/engine/link_trial.h"

#include <gtest/gtest.h>

#include <array>
#include <chrono>
#include <thread>

#include "core/bootstrap/store.h"
#include "tests/unit/execute/world.h"
#include "transports/loop/loop.h"

namespace roda::engine {
namespace {

using Clock = Store::Clock;

struct Outcome {
  Status status;
  Link link;
};

// Both ranks' ends of one trial.
std::array<Outcome, 2> try_both(const roda_transport& transport, Clock::duration time) {
  static int trials = 0;
  const LinkTrial trial = {"trial" + std::to_string(++trials), {4, 7}, &transport, 1, false};
  LocalStore store;
  std::array<Outcome, 2> outcomes;
  const auto end = [&](std::size_t which) {
    Outcome& mine = outcomes[which];
    mine.status =
        try_link(trial, trial.ranks[which], execute::testing::test_host(), store, Clock::now() + time, &mine.link);
  };
  std::thread other(end, 1);
  end(0);
  other.join();
  return outcomes;
}

int32_t never_ends(roda_group*, roda_request*, roda_error*) { return RODA_IN_PROGRESS; }
int32_t never_lets_go(roda_group*, const void*, size_t) { return 0; }
int32_t late(roda_group* group, int32_t peer, uint64_t tag, const void* data, size_t bytes, const roda_memory* memory,
             roda_request** request, roda_error* error) {
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  return roda_loop_transport()->send(group, peer, tag, data, bytes, memory, request, error);
}

TEST(LinkTrial, FindsFiguresOrSaysThatTheMachineIsBusy) {
  const auto outcomes = try_both(*roda_loop_transport(), std::chrono::seconds(60));
  EXPECT_TRUE(outcomes[1].status.ok()) << outcomes[1].status.message();
  if (!outcomes[0].status.ok()) {
    EXPECT_EQ(outcomes[0].status.code(), RODA_ERR_UNAVAILABLE) << outcomes[0].status.message();
    return;
  }
  EXPECT_GT(outcomes[0].link.latency_us, 0);
  EXPECT_GT(outcomes[0].link.GBps, 0);
}

TEST(LinkTrial, EndsAtItsDeadline) {
  roda_transport slow = *roda_loop_transport();
  slow.send = late;
  for (const Outcome& outcome : try_both(slow, std::chrono::milliseconds(20))) EXPECT_FALSE(outcome.status.ok());
}

// Jobs went on waiting, in silence, for what such a transport promised.
TEST(LinkTrial, IsGivenUpWhenTheTransportEndsNothingOfIt) {
  roda_transport stuck = *roda_loop_transport();
  stuck.request_test = never_ends;
  for (const Outcome& outcome : try_both(stuck, std::chrono::milliseconds(20))) {
    EXPECT_EQ(outcome.status.code(), RODA_ERR_TIMEOUT) << outcome.status.message();
  }
}

TEST(LinkTrial, IsGivenUpWhenTheTransportDoesNotLetGoOfItsMemory) {
  roda_transport clinging = *roda_loop_transport();
  clinging.send = late;
  clinging.quiesced = never_lets_go;
  for (const Outcome& outcome : try_both(clinging, std::chrono::milliseconds(20))) EXPECT_FALSE(outcome.status.ok());
}

}  // namespace
}  // namespace roda::engine

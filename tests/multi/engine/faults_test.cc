// A rank is killed; the others must hear of it, soon and by name. The killed rank is VICTIM, else the last one.
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <thread>

#include "tests/multi/engine/rank.h"

namespace roda::test {
namespace {

using Shape = std::vector<std::int64_t>;

int victim() {
  const char* text = std::getenv("VICTIM");
  return text == nullptr ? size() - 1 : std::atoi(text);
}

bool is_victim() { return rank() == victim(); }

void expect_named(const Outcome& o) {
  EXPECT_LT(o.code, 0);
  EXPECT_NE(o.message.find("ank " + std::to_string(victim())), std::string::npos) << o.message;
}

TEST(Faults, ARankDiesWhileOthersWaitForIt) {
  std::vector<float> data(1000, 1);
  const Shape shape{1000};
  ASSERT_EQ(run(make_op(RODA_ALLREDUCE, "before", shape, data.data(), data.data())).code, RODA_OK);
  // Whoever submits this has seen the first one end. The others may still be at this one when its end kills the victim.
  const Outcome o = run(make_op(RODA_ALLREDUCE, "last", shape, data.data(), data.data()));
  if (is_victim()) raise(SIGKILL);
  if (o.code != RODA_OK) expect_named(o);
  expect_named(run(make_op(RODA_ALLREDUCE, "after", shape, data.data(), data.data())));
  // Sticky: what comes later ends with the same cause.
  expect_named(run(make_op(RODA_ALLREDUCE, "later", shape, data.data(), data.data())));
}

TEST(Faults, ARankDiesInMidCollective) {
  std::vector<float> data(16u << 20, 1);
  const Shape shape{16 << 20};
  if (is_victim()) {
    std::thread([] {
      std::this_thread::sleep_for(std::chrono::milliseconds(300));  // some of the loop below is done by then
      raise(SIGKILL);
    }).detach();
  }
  Outcome o;
  for (int i = 0; i < 1000 && o.code == RODA_OK; ++i) {
    o = run(make_op(RODA_ALLREDUCE, "loop", shape, data.data(), data.data()));
  }
  expect_named(o);
}

// A DataLoader worker outlives its rank: what it inherited must not hide the death.
TEST(Faults, ARankDiesWhileItsChildLives) {
  if (is_victim()) {
    if (fork() == 0) {
      std::vector<float> data(4);
      const Shape shape{4};
      const Outcome o = run(make_op(RODA_ALLREDUCE, "child", shape, data.data(), data.data()));
      const bool clear = o.message.find("forked") != std::string::npos;
      std::this_thread::sleep_for(std::chrono::seconds(clear ? 8 : 0));
      _exit(0);
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
    raise(SIGKILL);
  }
  std::vector<float> data(1000, 1);
  const Shape shape{1000};
  const auto start = std::chrono::steady_clock::now();
  expect_named(run(make_op(RODA_ALLREDUCE, "orphan", shape, data.data(), data.data())));
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(5));
}

// With HOROVOD_STALL_SHUTDOWN_TIME_SECONDS set, a tensor that one rank never submits ends the job on every rank.
TEST(Faults, ARankNeverSubmits) {
  std::vector<float> data(4, 1);
  const Shape shape{4};
  Outcome o;
  if (is_victim()) {
    // Something that the others never submit in turn.
    while (o.code == RODA_OK) {
      roda_handle handle = 0;
      o = submit({make_op(RODA_ALLREDUCE, "something else", shape, data.data(), data.data())}, &handle);
      if (o.code == RODA_OK) o = wait(handle);
    }
  } else {
    o = run(make_op(RODA_ALLREDUCE, "stalled", shape, data.data(), data.data()));
  }
  EXPECT_EQ(o.code, RODA_ERR_TIMEOUT);
  EXPECT_NE(o.message.find("One or more tensors were submitted"), std::string::npos) << o.message;
  // Whoever looks first speaks for all: of its own tensor, which the other side lacks.
  const bool named =
      o.message.find(": [stalled]") != std::string::npos || o.message.find(": [something else]") != std::string::npos;
  EXPECT_TRUE(named) << o.message;
}

}  // namespace
}  // namespace roda::test

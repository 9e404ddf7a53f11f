// A rank is killed; the others must hear of it, soon and by name. The killed rank is VICTIM, else the last one.
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <thread>
#include <vector>

#include "tests/multi/engine/rank.h"

namespace {
bool dies_in_words = false;
}

// The words of a job's end are written by it into the memory of the host.
extern "C" int snprintf(char* text, std::size_t bytes, const char* format, ...) {
  if (dies_in_words && bytes == 2048) raise(SIGKILL);
  std::va_list list;
  va_start(list, format);
  const int length = std::vsnprintf(text, bytes, format, list);
  va_end(list);
  return length;
}

// Of mpi_stuck.c, where that is preloaded.
extern "C" __attribute__((weak)) void roda_test_arm();
extern "C" __attribute__((weak)) void roda_test_await_stuck();

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
  // The second one of the name waits for its turn, which does not come.
  roda_op op = make_op(RODA_ALLREDUCE, "after", shape, data.data(), data.data());
  op.flags |= RODA_OP_IN_TURN;
  std::vector<roda_handle> handles(2);
  for (roda_handle& handle : handles) {
    const Outcome submitted = submit({op}, &handle);
    if (submitted.code != RODA_OK) expect_named(submitted);
  }
  for (const roda_handle handle : handles) {
    if (handle != 0) expect_named(wait(handle));
  }
  // Sticky: what comes later ends with the same cause.
  expect_named(run(make_op(RODA_ALLREDUCE, "later", shape, data.data(), data.data())));
}

// The first rank of those that wait for rank 0 reports the stall, and is killed while it does. The others hear of that,
// on its host and on others.
TEST(Faults, ARankDiesWhileItEndsTheJob) {
  std::vector<double> pids(static_cast<std::size_t>(size()));
  pids[static_cast<std::size_t>(rank())] = getpid();
  const Shape all{size()};
  ASSERT_EQ(run(make_op(RODA_ALLREDUCE, "pids", all, pids.data(), pids.data(), RODA_FLOAT64)).code, RODA_OK);
  const auto process = static_cast<pid_t>(pids[static_cast<std::size_t>(victim())]);
  dies_in_words = is_victim();
  while (rank() == 0 && kill(process, 0) == 0) usleep(1000);
  float x = 1;
  expect_named(run(make_op(RODA_ALLREDUCE, "not of rank 0", {1}, &x, &x)));
}

// Where this rank reads the log of its host (core/control/log_ring.h): each reader has a line behind the ring's header,
// of which the number of cells and that of the readers are known.
std::atomic<std::uint64_t>* place_in_log() {
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    std::uintptr_t begin = 0, end = 0;
    if (line.find("roda-control") == std::string::npos) continue;
    if (std::sscanf(line.c_str(), "%lx-%lx", &begin, &end) != 2) continue;
    for (std::uintptr_t at = begin; at < end; at += 64) {
      const auto* header = reinterpret_cast<const std::uint32_t*>(at);
      if (header[0] != 8192 || header[1] != static_cast<std::uint32_t>(roda_local_size())) continue;
      return reinterpret_cast<std::atomic<std::uint64_t>*>(at + 128 +
                                                           64 * static_cast<std::uintptr_t>(roda_local_rank()));
    }
  }
  return nullptr;
}

// Memory of the engine's changes under it in one rank: that one ends, and all are told what does not hold, and where.
TEST(Faults, ABrokenInvariantEndsTheJobWithASentence) {
  float x = 1;
  // The victim may have ended it, and broken what follows, before the others have.
  Outcome o = run(make_op(RODA_ALLREDUCE, "before", {1}, &x, &x));
  if (is_victim()) {
    ASSERT_EQ(o.code, RODA_OK) << o.message;
    std::atomic<std::uint64_t>* const place = place_in_log();
    ASSERT_NE(place, nullptr);
    place->fetch_add(1);
  }
  while (o.code == RODA_OK) o = run(make_op(RODA_ALLREDUCE, "on", {1}, &x, &x));
  expect_named(o);
  const std::string sentence = "it does not hold that each reader of the log moves its own place alone";
  EXPECT_NE(o.message.find(sentence), std::string::npos) << o.message;
  EXPECT_NE(o.message.find("(core/control/log_ring.h:"), std::string::npos) << o.message;
  std::string saved;
  for (const auto& file : std::filesystem::directory_iterator(std::getenv("RODA_FLIGHT_FOLDER"))) {
    std::ifstream dump(file.path());
    saved.append(std::istreambuf_iterator<char>(dump), {});
  }
  EXPECT_NE(saved.find(sentence), std::string::npos);
  EXPECT_NE(saved.find("before"), std::string::npos) << "the operations, too";
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

// A thread of each survivor does not come back from MPI. Where the engine can do without that thread, the program hears
// of the death, and later that there is no MPI any more; else its process ends.
TEST(Faults, ARankDiesAndMpiLocksUp) {
  if (roda_test_arm == nullptr) GTEST_SKIP() << "without mpi_stuck.c";
  std::vector<float> data(4u << 20, 1);
  const Shape shape{4 << 20};
  ASSERT_EQ(run(make_op(RODA_ALLREDUCE, "before", shape, data.data(), data.data())).code, RODA_OK);
  roda_test_arm();
  expect_named(run(make_op(RODA_ALLREDUCE, "under way", shape, data.data(), data.data())));
  roda_test_await_stuck();
  roda_shutdown();
  EXPECT_NE(roda_init(nullptr, nullptr), RODA_OK);
}

struct Kind {
  const char* name;
  int collective;
  int op;
};

class ARankDiesInMid : public ::testing::TestWithParam<Kind> {};

// The others hear of it within five seconds, whatever they are at, and so does what they begin after that.
TEST_P(ARankDiesInMid, AnyCollective) {
  const Kind kind = GetParam();
  const std::int64_t rows = 3 << 20;
  std::vector<float> data(static_cast<std::size_t>(rows), 1);
  const Shape shape{kind.collective == RODA_BARRIER ? 0 : rows};
  const bool owned = kind.collective != RODA_ALLREDUCE && kind.collective != RODA_BROADCAST;
  roda_op op = make_op(kind.collective, "loop", shape, data.data(), owned ? nullptr : data.data());
  op.op = kind.op;
  if (is_victim()) {
    std::thread([] {
      std::this_thread::sleep_for(std::chrono::milliseconds(300));  // some of the loop below is done by then
      raise(SIGKILL);
    }).detach();
  }
  Outcome o;
  auto last = std::chrono::steady_clock::now();
  while (true) {
    roda_handle handle = 0;
    o = submit({op}, &handle);
    roda_error error{};
    error.struct_size = sizeof error;
    if (o.code == RODA_OK) o.code = roda_wait(handle, &error);
    if (o.code != RODA_OK) {
      if (error.message[0] != '\0') o.message = error.message;
      break;
    }
    roda_output output{};
    output.struct_size = sizeof output;
    if (roda_get_output(handle, 0, &output, &error) == RODA_OK) roda_output_release(output.owner);
    roda_release(handle);
    last = std::chrono::steady_clock::now();
  }
  expect_named(o);
  EXPECT_LT(std::chrono::steady_clock::now() - last, std::chrono::seconds(5));
  expect_named(run(make_op(RODA_BARRIER, "", {}, nullptr, nullptr)));
}

INSTANTIATE_TEST_SUITE_P(
    Faults, ARankDiesInMid,
    ::testing::Values(Kind{"Allreduce", RODA_ALLREDUCE, RODA_AVERAGE}, Kind{"Adasum", RODA_ALLREDUCE, RODA_ADASUM},
                      Kind{"Allgather", RODA_ALLGATHER, RODA_SUM}, Kind{"Broadcast", RODA_BROADCAST, RODA_SUM},
                      Kind{"Alltoall", RODA_ALLTOALL, RODA_SUM}, Kind{"Reducescatter", RODA_REDUCESCATTER, RODA_SUM},
                      Kind{"Reduce", RODA_REDUCE, RODA_SUM}, Kind{"Barrier", RODA_BARRIER, RODA_SUM}),
    [](const auto& instance) { return instance.param.name; });

// A debugger, or a machine that swaps: whoever waits for the one that is stopped, or for one that waits for it, is
// told.
TEST(Faults, ARankIsStoppedInMidCollective) {
  std::vector<float> data(4u << 20, 1);
  const Shape shape{4 << 20};
  if (is_victim()) {
    std::thread([] {
      std::this_thread::sleep_for(std::chrono::milliseconds(300));  // some of the loop below is done by then
      raise(SIGSTOP);
    }).detach();
  }
  roda_error error{};
  error.struct_size = sizeof error;
  std::int32_t code = RODA_OK;
  while (code == RODA_OK) {
    roda_handle handle = 0;
    const Outcome o = submit({make_op(RODA_ALLREDUCE, "loop", shape, data.data(), data.data())}, &handle);
    ASSERT_EQ(o.code, RODA_OK) << o.message;
    code = roda_wait(handle, &error);
    roda_release(handle);
  }
  // Stopped between two collectives, or where it orders the log for another host, it is named when it ends.
  EXPECT_EQ(error.rank, victim()) << error.message;
}

// Where the others can go on without a rank, one that is stopped before it submits is named, whatever is said of
// stalls: also where what the others submit comes to the log through it.
TEST(Faults, ARankStopsBeforeItSubmits) {
  float x = 1;
  const Shape one{1};
  Outcome o = run(make_op(RODA_ALLREDUCE, "before", one, &x, &x));
  if (is_victim()) raise(SIGSTOP);
  if (o.code == RODA_OK) o = run(make_op(RODA_ALLREDUCE, "after", one, &x, &x));
  EXPECT_EQ(o.code, RODA_ERR_TIMEOUT) << o.message;
  EXPECT_NE(o.message.find("Rank " + std::to_string(victim()) + " does not answer"), std::string::npos) << o.message;
}

// Whether a process that the job's parent started is stopped.
bool has_stopped_sibling() {
  const std::string parent = std::to_string(getppid());
  std::ifstream children("/proc/" + parent + "/task/" + parent + "/children");
  for (std::string pid; children >> pid;) {
    std::ifstream stat("/proc/" + pid + "/stat");
    const std::string text((std::istreambuf_iterator<char>(stat)), std::istreambuf_iterator<char>());
    const std::size_t name_end = text.rfind(')');
    if (name_end != std::string::npos && text.compare(name_end, 3, ") T") == 0) return true;
  }
  return false;
}

// At the end every rank waits for every other one, whatever is said of stalls. A rank that is stopped is killed when
// the others have ended: so long they may not wait.
TEST(Faults, ARankStopsAtTheEnd) {
  float x = 1;
  const Shape one{1};
  const Outcome o = run(make_op(RODA_ALLREDUCE, "before", one, &x, &x));
  if (is_victim()) raise(SIGSTOP);
  EXPECT_TRUE(o.code == RODA_OK || o.code == RODA_ERR_TIMEOUT) << o.message;
  while (!has_stopped_sibling()) std::this_thread::yield();
  roda_shutdown();
  EXPECT_TRUE(has_stopped_sibling());
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

// The rank's process goes on, as one that is none of this job: it stops until the others have ended.
TEST(Faults, ARankRunsAnotherProgram) {
  float x = 1;
  const Shape one{1};
  Outcome o = run(make_op(RODA_ALLREDUCE, "before", one, &x, &x));
  if (is_victim()) execl("/bin/sh", "sh", "-c", "kill -STOP $$", nullptr);
  const auto start = std::chrono::steady_clock::now();
  if (o.code == RODA_OK) o = run(make_op(RODA_ALLREDUCE, "after", one, &x, &x));
  expect_named(o);
  EXPECT_NE(o.message.find(" runs another program now, /"), std::string::npos) << o.message;
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(5));
}

// As programs do that become daemons. The others are told either that, or what failed first in that rank for the lack
// of descriptors; the rank itself is told, too.
TEST(Faults, ARankClosesAllDescriptors) {
  float x = 1;
  const Shape one{1};
  Outcome o = run(make_op(RODA_ALLREDUCE, "before", one, &x, &x));
  if (is_victim()) close_range(STDERR_FILENO + 1, ~0u, 0);
  if (o.code == RODA_OK) o = run(make_op(RODA_ALLREDUCE, "after", one, &x, &x));
  expect_named(o);
}

// The others have joined, and wait for the last one.
TEST(Faults, ARankDiesBeforeItJoins) {
  float x = 1;
  const Shape one{1};
  const Outcome o = run(make_op(RODA_ALLREDUCE, "before", one, &x, &x));
  if (is_victim()) raise(SIGKILL);
  if (o.code != RODA_OK) expect_named(o);  // the others may still be at it
  expect_named(run(make_op(RODA_JOIN, "", {}, nullptr, nullptr)));
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
  EXPECT_NE(o.message.find("Submitted last, on this host: rank 0 'stalled', "), std::string::npos) << o.message;
}

// The same for a group that one rank submits whole, after it submitted one of its tensors alone, and then joins.
TEST(Faults, AGroupIsNeverCompleted) {
  std::vector<float> data(2, 1);
  const Shape one{1};
  const std::vector<roda_op> group = {make_op(RODA_ALLREDUCE, "a", one, &data[0], &data[0]),
                                      make_op(RODA_ALLREDUCE, "b", one, &data[1], &data[1])};
  roda_handle handle = 0;
  Outcome o;
  if (rank() == 0) {
    ASSERT_EQ(submit(group, &handle).code, RODA_OK);
    o = run(make_op(RODA_JOIN, "", {}, nullptr, nullptr));
    EXPECT_EQ(wait(handle).code, RODA_OK);  // the others' "a" completed it
  } else {
    float alone = 1;
    ASSERT_EQ(run(make_op(RODA_ALLREDUCE, "b", one, &alone, &alone)).code, RODA_OK);
    ASSERT_EQ(submit(group, &handle).code, RODA_OK);
    o = wait(handle);
  }
  EXPECT_EQ(o.code, RODA_ERR_TIMEOUT);
  for (const char* text : {"1!: [b (agreed on, but not 1 of the 2 tensors of its group", "2!: [b (agreed on"}) {
    EXPECT_NE(o.message.find(text), std::string::npos) << o.message;
  }
}

}  // namespace
}  // namespace roda::test

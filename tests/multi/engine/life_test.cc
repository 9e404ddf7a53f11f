// Before init, after shutdown, and init again and again.
#include <malloc.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <string>
#include <thread>

#include "tests/multi/engine/rank.h"

namespace roda::test {
namespace {

using Shape = std::vector<std::int64_t>;

constexpr const char* kNotInitialised = "Horovod has not been initialized; use hvd.init().";

void init() {
  roda_error error{};
  error.struct_size = sizeof error;
  ASSERT_EQ(roda_init(nullptr, &error), RODA_OK) << error.message;
}

void expect_no_engine() {
  EXPECT_EQ(roda_is_initialized(), 0);
  for (const auto ask : {roda_rank, roda_size, roda_local_rank, roda_local_size, roda_cross_rank, roda_cross_size,
                         roda_is_homogeneous, roda_stop_timeline}) {
    EXPECT_EQ(ask(), -1);
  }
  const std::int32_t zero = 0;
  std::int32_t ranks[64];
  EXPECT_EQ(roda_add_process_set(&zero, 1), -1);
  EXPECT_EQ(roda_remove_process_set(1), -1);
  EXPECT_EQ(roda_process_set_rank(0), -1);
  EXPECT_EQ(roda_process_set_size(0), -1);
  EXPECT_EQ(roda_process_set_included(0), -1);
  EXPECT_EQ(roda_process_set_ranks(0, ranks), -1);
  EXPECT_EQ(roda_process_set_count(), 0);
  EXPECT_EQ(roda_start_timeline("nowhere", 0), -1);
  float x = 1;
  const Shape one{1};
  for (const int c :
       {RODA_ALLREDUCE, RODA_ALLGATHER, RODA_BROADCAST, RODA_ALLTOALL, RODA_REDUCESCATTER, RODA_BARRIER, RODA_JOIN}) {
    const Outcome o = run(make_op(c, "x", one, &x, &x));
    EXPECT_EQ(o.code, RODA_ERR_PRECONDITION);
    EXPECT_EQ(o.message, kNotInitialised);
  }
  EXPECT_EQ(roda_poll(1), RODA_ERR_INVALID);
  EXPECT_NE(wait(1).message.find("was not created or has been cleared"), std::string::npos);
  roda_shutdown();  // does nothing
}

void work(const std::string& name) {
  std::vector<float> data(1000, 1);
  const Shape shape{1000};
  for (int i = 0; i < 2; ++i) {
    const Outcome o = run(make_op(RODA_ALLREDUCE, name, shape, data.data(), data.data()));
    ASSERT_EQ(o.code, RODA_OK) << o.message;
  }
  EXPECT_EQ(data.front(), static_cast<float>(size() * size()));
}

TEST(Life, NothingWorksBeforeInit) { expect_no_engine(); }

TEST(Life, NothingWorksAfterShutdown) {
  init();
  work("once");
  roda_shutdown();
  expect_no_engine();
}

// Another rank's shutdown ends what this one still waits for; so does its own.
TEST(Life, ShutdownEndsWhatIsPending) {
  init();
  work("first");
  const bool leaves = rank() == size() - 1;
  std::vector<float> data(8, 1);
  const Shape shape{8};
  roda_handle handle = 0;
  if (!leaves || size() == 1) {
    // Of a group that the leaving rank never submits.
    ASSERT_EQ(submit({make_op(RODA_ALLREDUCE, "never", shape, data.data(), data.data()),
                      make_op(RODA_ALLREDUCE, "as well", shape, data.data(), data.data())},
                     &handle)
                  .code,
              RODA_OK);
  }
  ASSERT_EQ(run(make_op(RODA_BARRIER, "", {}, nullptr, nullptr)).code, RODA_OK);
  if (leaves) roda_shutdown();
  if (handle != 0 && size() > 1) {
    const Outcome o = wait(handle);
    EXPECT_EQ(o.code, RODA_ERR_UNKNOWN);
    EXPECT_EQ(o.message.find("Horovod has been shut down."), 0u) << o.message;
    EXPECT_NE(o.message.find("rank " + std::to_string(size() - 1) + " called hvd.shutdown()"), std::string::npos)
        << o.message;
    // And nothing new can be begun.
    const Outcome later = run(make_op(RODA_ALLREDUCE, "later", shape, data.data(), data.data()));
    EXPECT_EQ(later.message.find("Horovod has been shut down."), 0u) << later.message;
  }
  roda_shutdown();
  expect_no_engine();
}

// A rank whose program can't go on ends what the others wait for, and they learn why; the job can form again.
TEST(Life, AnAbortEndsWhatIsPendingWithItsCause) {
  init();
  const std::int32_t last = size() - 1;
  roda_error error{};
  if (rank() == last) {
    EXPECT_EQ(roda_end_cause(&error), RODA_OK) << error.message;
  }
  const std::string cause = "Rank " + std::to_string(last) + " (";
  const std::string how = ") ended with ValueError: bad label (train.py:5)";
  std::vector<float> data(8, 1);
  const Shape shape{8};
  if (rank() == last) {
    roda_abort(how.substr(2).c_str());
  } else {
    const Outcome o = run(make_op(RODA_ALLREDUCE, "never", shape, data.data(), data.data()));
    EXPECT_EQ(o.code, RODA_ERR_ABORTED);
    EXPECT_EQ(o.message.find("Horovod has been shut down. The cause: " + cause), 0u) << o.message;
    EXPECT_NE(o.message.find(how), std::string::npos) << o.message;
  }
  EXPECT_EQ(roda_end_cause(&error), RODA_ERR_ABORTED);
  EXPECT_EQ(error.rank, last);
  EXPECT_NE(std::string(error.message).find(how), std::string::npos) << error.message;
  roda_shutdown();
  roda_abort("is not asked any more");
  init();
  work("again");
  roda_shutdown();
}

// Longer than any error's text.
TEST(Life, ACauseOfAnyLengthIsCut) {
  init();
  if (rank() == 0) roda_abort(std::string(100'000, 'x').c_str());
  std::vector<float> data(8, 1);
  const Shape shape{8};
  const Outcome o = run(make_op(RODA_ALLREDUCE, "never", shape, data.data(), data.data()));
  EXPECT_EQ(o.code, RODA_ERR_ABORTED);
  EXPECT_TRUE(o.message.ends_with("xxx...")) << o.message;
  roda_shutdown();
}

TEST(Life, TheEndOfAPeersProcessCanBeAwaited) {
  init();
  EXPECT_EQ(roda_await_process_end(size(), 0), 1) << "there is no such rank";
  if (size() > 1) {
    const std::int32_t other = (rank() + 1) % size();
    EXPECT_EQ(roda_await_process_end(other, 1000), 0);
  }
  work("after that");
  roda_shutdown();
}

// A handle of the engine that was shut down can still be asked.
TEST(Life, HandlesOutliveTheEngine) {
  init();
  std::vector<float> data(8, 1);
  const Shape shape{8};
  roda_handle handle = 0;
  ASSERT_EQ(submit({make_op(RODA_ALLREDUCE, "kept", shape, data.data(), data.data())}, &handle).code, RODA_OK);
  roda_error error{};
  ASSERT_EQ(roda_wait(handle, &error), RODA_OK);
  roda_shutdown();
  EXPECT_EQ(roda_poll(handle), 1);
  EXPECT_EQ(wait(handle).code, RODA_OK);
}

std::map<std::string, std::string> thread_status(const std::filesystem::path& thread) {
  std::map<std::string, std::string> fields;
  std::ifstream file(thread / "status");
  for (std::string line; std::getline(file, line);) {
    const std::size_t colon = line.find(':');
    fields[line.substr(0, colon)] = line.substr(std::min(line.find_first_not_of(":\t ", colon), line.size()));
  }
  return fields;
}

// A signal that the program has blocked, a scheduler's warning perhaps, must find no thread of ours that takes it.
TEST(Life, ThreadsTakeNoSignalsAndSayWhoseTheyAre) {
  std::set<std::filesystem::path> before;
  const std::filesystem::path threads = "/proc/self/task";
  for (const auto& thread : std::filesystem::directory_iterator(threads)) before.insert(thread.path());
  init();
  work("starts what it needs");
  std::vector<float> data(8, 1);
  const Shape shape{8};
  roda_handle handle = 0;
  std::atomic<bool> is_done{false};
  ASSERT_EQ(submit({make_op(RODA_ALLREDUCE, "called back", shape, data.data(), data.data())}, &handle).code, RODA_OK);
  const auto done = [](void* flag, roda_handle) { static_cast<std::atomic<bool>*>(flag)->store(true); };
  ASSERT_EQ(roda_then(handle, done, &is_done, nullptr), RODA_OK);
  // The kernel ends its list early where a thread ends while it is listed: an earlier test's may do so now.
  std::set<std::string> names;
  const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(10);
  while (!names.contains("roda-engine") && std::chrono::steady_clock::now() < until) {
    for (const auto& thread : std::filesystem::directory_iterator(threads)) {
      if (before.contains(thread.path())) continue;
      auto status = thread_status(thread.path());
      if (!status.contains("SigBlk")) continue;  // it has ended
      names.insert(status["Name"]);
      // A library's thread has no name of ours.
      const std::uint64_t blocked = std::strtoull(status["SigBlk"].c_str(), nullptr, 16);
      for (const int signal : {SIGUSR1, SIGUSR2, SIGTERM, SIGINT, SIGCHLD, SIGPIPE}) {
        EXPECT_NE(blocked & (std::uint64_t{1} << (signal - 1)), 0u) << status["Name"] << ", signal " << signal;
      }
    }
  }
  EXPECT_TRUE(names.contains("roda-engine"));
  while (!is_done) std::this_thread::yield();
  roda_shutdown();
}

// A forked child must not touch what its parent's engine does.
TEST(Life, AForkedChildCannotAskForItsParentsHandle) {
  init();
  std::vector<float> data(8, 1);
  const Shape shape{8};
  roda_handle handle = 0;
  ASSERT_EQ(submit({make_op(RODA_ALLREDUCE, "parent's", shape, data.data(), data.data())}, &handle).code, RODA_OK);
  const pid_t child = fork();
  if (child == 0) {
    const bool is_refused = wait(handle).code == RODA_ERR_PRECONDITION && roda_poll(handle) == RODA_ERR_PRECONDITION;
    _exit(is_refused ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(wait(handle).code, RODA_OK);
  roda_shutdown();
}

TEST(Life, TwoThreadsMayAskForTheSameSet) {
  setenv("HOROVOD_DYNAMIC_PROCESS_SETS", "1", 1);
  init();
  const std::int32_t last = size() - 1;
  const auto both = [](const auto& ask) {
    std::int32_t answers[2];
    std::thread other([&] { answers[1] = ask(); });
    answers[0] = ask();
    other.join();
    return std::max(answers[0], answers[1]);
  };
  const int rounds = size() == 1 ? 0 : 50;  // the only set would be the job's
  for (int round = 0; round < rounds; ++round) {
    const std::int32_t id = both([&] { return roda_add_process_set(&last, 1); });
    ASSERT_GT(id, 0);
    ASSERT_EQ(both([&] { return roda_remove_process_set(id); }), id);
  }
  roda_shutdown();
  unsetenv("HOROVOD_DYNAMIC_PROCESS_SETS");
}

// Nobody waits, and a stall is told all the same.
TEST(Life, AStallIsToldToWhoPolls) {
  setenv("HOROVOD_STALL_CHECK_TIME_SECONDS", "1", 1);
  init();
  unsetenv("HOROVOD_STALL_CHECK_TIME_SECONDS");
  if (size() != 2) {
    roda_shutdown();
    GTEST_SKIP() << "two ranks show it";
  }
  work("connects");
  float x = 1;
  const Shape one{1};
  roda_handle handle = 0;
  if (rank() == 0) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1500));  // the engine's own thread sleeps by now
    testing::internal::CaptureStderr();
    ASSERT_EQ(submit({make_op(RODA_ALLREDUCE, "alone", one, &x, &x)}, &handle).code, RODA_OK);
    for (int i = 0; i < 400 && roda_poll(handle) == 0; ++i) std::this_thread::sleep_for(std::chrono::milliseconds(10));
    EXPECT_NE(testing::internal::GetCapturedStderr().find("alone"), std::string::npos);
  } else {
    std::this_thread::sleep_for(std::chrono::milliseconds(6000));
    ASSERT_EQ(submit({make_op(RODA_ALLREDUCE, "alone", one, &x, &x)}, &handle).code, RODA_OK);
  }
  EXPECT_EQ(wait(handle).code, RODA_OK);
  roda_shutdown();
}

// Whether this thread drives the engine or another does.
TEST(Life, AWaitEndsAtItsLimitAndCanBeTakenUpAgain) {
  init();
  std::vector<float> first(8, 1), second(8, 1);
  const Shape shape{8};
  const auto barrier = [] { return run(make_op(RODA_BARRIER, "", {}, nullptr, nullptr)).code; };
  roda_handle handles[2] = {};
  const bool is_early = size() > 1 && roda_rank() == 0;
  if (!is_early) {
    EXPECT_EQ(barrier(), RODA_OK);  // rank 0 comes here when its waits have ended
  }
  ASSERT_EQ(submit({make_op(RODA_ALLREDUCE, "first", shape, first.data(), first.data())}, &handles[0]).code, RODA_OK);
  ASSERT_EQ(submit({make_op(RODA_ALLREDUCE, "second", shape, second.data(), second.data())}, &handles[1]).code,
            RODA_OK);
  std::thread other([&] { EXPECT_EQ(wait(handles[0]).code, RODA_OK); });
  if (is_early) {
    for (int i = 0; i < 3; ++i) EXPECT_EQ(roda_wait_for(handles[1], 20'000, nullptr), RODA_AGAIN);
    EXPECT_EQ(roda_wait_for(handles[1], 0, nullptr), RODA_AGAIN);
    EXPECT_EQ(barrier(), RODA_OK);
  }
  EXPECT_EQ(wait(handles[1]).code, RODA_OK);
  other.join();
  EXPECT_EQ(second[0], static_cast<float>(size()));
  roda_shutdown();
}

struct Held {
  std::size_t descriptors = 0, threads = 0, mappings = 0, heap = 0;
};

std::size_t entries(const char* folder) {
  std::size_t n = 0;
  for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator(folder)) ++n;
  return n;
}

// What this process holds on to, without an engine.
Held held() {
  Held now;
  now.descriptors = entries("/proc/self/fd");
  now.threads = entries("/proc/self/task");
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) ++now.mappings;
  malloc_trim(0);
  now.heap = mallinfo2().uordblks;
  return now;
}

TEST(Life, FiftyTimesLeavesNothingBehind) {
  const auto once = [] {
    init();
    work("again");
    std::vector<float> rows(12, 1);
    const Shape shape{12};
    ASSERT_EQ(run_owned<float>(make_op(RODA_ALLGATHER, "rows", shape, rows.data(), nullptr)).outcome.code, RODA_OK);
    roda_shutdown();
  };
  for (int i = 0; i < 10; ++i) once();  // what is kept for good is there by then
  const Held before = held();
  for (int i = 0; i < 50; ++i) once();
  const Held after = held();
  // The last engine still holds connections whose other ends may have closed: one or two, as it comes.
  EXPECT_LT(after.descriptors, before.descriptors + 25);
  EXPECT_LE(after.threads, before.threads);
  // The allocator's arenas come and go with threads; a leak would be there fifty times.
  EXPECT_LT(after.mappings, before.mappings + 25);
  // Tables that are kept grow a little now and then: 15 KB were seen, and no more after 600 rounds.
  EXPECT_LT(after.heap, before.heap + 50 * 600) << "heap before: " << before.heap;
}

}  // namespace
}  // namespace roda::test

// Calls that are inside the engine when it ends, and those of a child that was forked from its process meanwhile.
//
// A thread is held up where its core might be taken: around a mutex's hold, or at the end of a sleep.
#include <dlfcn.h>
#include <linux/futex.h>
#include <malloc.h>
#include <pthread.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdarg>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tests/multi/engine/rank.h"

namespace {

std::atomic<int> held_up{0};
std::atomic<bool> goes_on{false};
std::atomic<int> in_futex{0};
std::atomic<bool> has_yielded{false};
// Where this thread is held up at its next lock of a mutex.
enum class Place { kNowhere, kBeforeLock, kWithLock, kAfterUnlock };
thread_local Place place = Place::kNowhere;
thread_local bool is_held_after_futex = false;
thread_local bool tells_yield = false;

void hold_up() {
  held_up.fetch_add(1);
  while (!goes_on.load()) ::usleep(100);
}

template <typename Function>
Function* next(const char* name) {
  return reinterpret_cast<Function*>(::dlsym(RTLD_NEXT, name));
}

}  // namespace

extern "C" {

int pthread_mutex_lock(pthread_mutex_t* mutex) noexcept(true) {
  static auto* const real = next<int(pthread_mutex_t*)>("pthread_mutex_lock");
  if (place == Place::kBeforeLock) {
    place = Place::kNowhere;
    hold_up();
  }
  return real(mutex);
}

int pthread_mutex_unlock(pthread_mutex_t* mutex) noexcept(true) {
  static auto* const real = next<int(pthread_mutex_t*)>("pthread_mutex_unlock");
  const Place here = std::exchange(place, Place::kNowhere);
  if (here == Place::kWithLock) hold_up();
  const int result = real(mutex);
  if (here == Place::kAfterUnlock) hold_up();
  return result;
}

int sched_yield() {
  if (tells_yield) has_yielded.store(true);
  return static_cast<int>(::syscall(SYS_sched_yield));
}

long syscall(long number, ...) {
  static auto* const real = next<long(long, ...)>("syscall");
  std::va_list list;
  va_start(list, number);
  long a[6];
  for (long& each : a) each = va_arg(list, long);
  va_end(list);
  const bool is_place = number == SYS_futex && (a[1] & FUTEX_CMD_MASK) == FUTEX_WAIT && is_held_after_futex;
  if (is_place) in_futex.fetch_add(1);
  const long result = real(number, a[0], a[1], a[2], a[3], a[4], a[5]);
  if (is_place) hold_up();
  return result;
}

}  // extern "C"

namespace roda::test {
namespace {

const std::vector<std::int64_t> kOne{1};

void init() {
  roda_error error{};
  error.struct_size = sizeof error;
  ASSERT_EQ(roda_init(nullptr, &error), RODA_OK) << error.message;
}

void await(const auto& condition) {
  while (!condition()) ::usleep(100);
}

class LateCalls : public ::testing::Test {
 protected:
  LateCalls() {
    held_up = in_futex = 0;
    goes_on = has_yielded = false;
    ::mallopt(M_PERTURB, 165);  // what is read of freed memory is no pointer
  }
  ~LateCalls() override { ::mallopt(M_PERTURB, 0); }

  // The engine ends, and the next one starts, as far as it can while threads are held up in the one before. Then these
  // go on.
  static void begin_anew() {
    roda_shutdown();
    std::atomic<bool> has_begun{false};
    std::thread other([&] {
      tells_yield = true;
      init();
      has_begun = true;
    });
    await([&] { return has_begun || has_yielded; });
    goes_on = true;
    other.join();
  }

  static void work(const std::string& name) {
    float x = 1;
    const Outcome o = run(make_op(RODA_ALLREDUCE, name, kOne, &x, &x));
    ASSERT_EQ(o.code, RODA_OK) << o.message;
    EXPECT_EQ(x, static_cast<float>(size()));
  }
};

// Before the operation's way into the queue, and behind it. The table of handles has grown before.
TEST_F(LateCalls, ASubmissionMayOutliveItsEngine) {
  for (const Place where : {Place::kBeforeLock, Place::kAfterUnlock}) {
    held_up = 0;
    goes_on = has_yielded = false;
    init();
    work("the first");
    float x = 1;
    std::thread late([&] {
      roda_handle handle = 0;
      place = where;
      if (submit({make_op(RODA_ALLREDUCE, "late", kOne, &x, &x)}, &handle).code == RODA_OK) wait(handle);
    });
    await([] { return held_up == 1; });
    begin_anew();
    late.join();
    work("of the next");
    roda_shutdown();
  }
}

bool engine_thread_lives() {
  for (const auto& thread : std::filesystem::directory_iterator("/proc/self/task")) {
    std::ifstream file(thread.path() / "comm");
    std::string name;
    if (std::getline(file, name) && name == "roda-engine") return true;
  }
  return false;
}

// Rank 1 is killed while an operation of rank 0 is in the queue, but not announced: the log is nobody's by then.
TEST_F(LateCalls, ASubmissionMayComeAfterTheJobsEnd) {
  if (std::getenv("VICTIM") == nullptr) GTEST_SKIP() << "no rank is to die";
  init();
  work("connects");
  float x = 1;
  std::thread late;
  if (rank() == 0) {
    late = std::thread([&] {
      roda_handle handle = 0;
      place = Place::kAfterUnlock;
      ASSERT_EQ(submit({make_op(RODA_ALLREDUCE, "late", kOne, &x, &x)}, &handle).code, RODA_OK);
      EXPECT_LT(wait(handle).code, 0);
    });
    await([] { return held_up == 1; });
  }
  float y = 1;
  const Outcome o = run(make_op(RODA_ALLREDUCE, "the late one is held up", kOne, &y, &y));
  if (rank() == 1) raise(SIGKILL);
  if (o.code == RODA_OK) {
    EXPECT_EQ(run(make_op(RODA_BARRIER, "", {}, nullptr, nullptr)).code, RODA_ERR_PEER);
  }
  await([] { return !engine_thread_lives(); });
  goes_on = true;
  late.join();
  roda_shutdown();
}

// They sleep until the thread that drives the engine has news for them, and that is its end.
TEST_F(LateCalls, AWaitMayOutliveItsEngine) {
  init();
  if (size() == 1) {
    roda_shutdown();
    GTEST_SKIP() << "nothing is pending where nobody is waited for";
  }
  work("connects");
  std::vector<float> data(3, 1);
  std::vector<Outcome> ends(3);
  std::vector<roda_handle> handles(3);
  std::atomic<std::size_t> submitted{0};
  std::vector<std::thread> threads;
  for (std::size_t i = 0; rank() == 0 && i < 3; ++i) {
    threads.emplace_back([&, i] {
      ASSERT_EQ(
          submit({make_op(RODA_ALLREDUCE, "never." + std::to_string(i), kOne, &data[i], &data[i])}, &handles[i]).code,
          RODA_OK);
      ++submitted;
      is_held_after_futex = true;
      roda_error error{};
      error.struct_size = sizeof error;
      ends[i].code = roda_wait(handles[i], &error);
      ends[i].message = error.message;
    });
  }
  if (rank() == 0) await([&] { return submitted == ends.size() && in_futex != 0; });
  work("from here on they may end");
  begin_anew();
  for (std::thread& thread : threads) thread.join();
  work("of the next");
  for (std::size_t i = 0; i < threads.size(); ++i) {
    EXPECT_EQ(ends[i].code, RODA_ERR_UNKNOWN);
    EXPECT_EQ(ends[i].message.find("Horovod has been shut down."), 0u) << ends[i].message;
    EXPECT_EQ(wait(handles[i]).code, RODA_ERR_UNKNOWN) << "its end stays to be had until the release";
    EXPECT_EQ(roda_poll(handles[i]), RODA_ERR_INVALID);
  }
  roda_shutdown();
}

TEST_F(LateCalls, AHandleIsNeverGivenTwice) {
  init();
  float a = 1, b = 2;
  roda_handle old = 0, released = 0, fresh = 0;
  const auto begin = [](float* x, roda_handle* handle) {
    ASSERT_EQ(submit({make_op(RODA_ALLREDUCE, "x", kOne, x, x)}, handle).code, RODA_OK);
    ASSERT_EQ(roda_wait(*handle, nullptr), RODA_OK);
  };
  begin(&a, &old);
  begin(&a, &released);
  roda_release(released);
  roda_shutdown();
  init();
  begin(&b, &fresh);
  EXPECT_NE(fresh, old);
  EXPECT_NE(fresh, released);
  EXPECT_EQ(roda_poll(old), 1) << "it has ended, whatever runs now";
  for (const roda_handle gone : {old, released}) {
    roda_release(gone);
    roda_output output{};
    output.struct_size = sizeof output;
    EXPECT_EQ(roda_poll(gone), RODA_ERR_INVALID);
    EXPECT_EQ(roda_wait(gone, nullptr), RODA_ERR_INVALID);
    EXPECT_EQ(roda_get_output(gone, 0, &output, nullptr), RODA_ERR_INVALID);
    EXPECT_EQ(roda_then(
                  gone, [](void*, roda_handle) { ADD_FAILURE(); }, nullptr, nullptr),
              RODA_ERR_INVALID);
  }
  EXPECT_EQ(roda_poll(fresh), 1);
  EXPECT_EQ(wait(fresh).code, RODA_OK);
  roda_shutdown();
}

// Another thread has the engine's lock while this one forks.
TEST_F(LateCalls, AForkedChildGivesBackNothing) {
  init();
  std::vector<float> rows(12, 3);
  const std::vector<std::int64_t> shape{12};
  roda_handle handle = 0;
  ASSERT_EQ(submit({make_op(RODA_ALLGATHER, "rows", shape, rows.data(), nullptr)}, &handle).code, RODA_OK);
  ASSERT_EQ(roda_wait(handle, nullptr), RODA_OK);
  roda_output output{};
  output.struct_size = sizeof output;
  ASSERT_EQ(roda_get_output(handle, 0, &output, nullptr), RODA_OK);
  float x = 1;
  std::thread other([&x] {
    roda_handle beside = 0;
    place = Place::kWithLock;
    ASSERT_EQ(submit({make_op(RODA_ALLREDUCE, "beside", kOne, &x, &x)}, &beside).code, RODA_OK);
    EXPECT_EQ(wait(beside).code, RODA_OK);
  });
  await([] { return held_up == 1; });
  const pid_t child = ::fork();
  if (child == 0) {
    ::alarm(20);
    roda_error error{};
    error.struct_size = sizeof error;
    const int began = roda_init(nullptr, &error);
    const bool is_told = std::string(error.message).find("'spawn'") != std::string::npos;
    roda_release(handle);
    roda_output_release(output.owner);
    roda_output_release(output.owner);
    roda_note_line("train.py:1");
    const bool is_whole = static_cast<const float*>(output.data)[0] == 3;
    const bool has_timeline = roda_start_timeline("/nowhere", 0) != -1 || roda_stop_timeline() != -1;
    ::_exit(began == RODA_ERR_PRECONDITION && is_told && is_whole && !has_timeline ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  goes_on = true;
  other.join();
  roda_output_release(output.owner);
  EXPECT_EQ(wait(handle).code, RODA_OK);
  roda_shutdown();
}

}  // namespace
}  // namespace roda::test

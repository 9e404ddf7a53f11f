// What a cached allreduce costs beside its data's way, counted: no memory, and two locks: one enters it, one ends it.
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <pthread.h>

#include <atomic>
#include <cstdlib>
#include <new>

#include "tests/multi/engine/rank.h"

namespace {

std::atomic<long> allocations{0};
std::atomic<long> locks{0};

}  // namespace

// In place of the libraries' own, for the engine too.
void* operator new(std::size_t bytes) {
  allocations.fetch_add(1, std::memory_order_relaxed);
  if (void* const memory = std::malloc(bytes)) return memory;
  throw std::bad_alloc();
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t /*bytes*/) noexcept { std::free(memory); }

extern "C" int pthread_mutex_lock(pthread_mutex_t* mutex) noexcept(true) {
  using Lock = int (*)(pthread_mutex_t*);
  static std::atomic<Lock> next{nullptr};
  if (next.load() == nullptr) next.store(reinterpret_cast<Lock>(dlsym(RTLD_NEXT, "pthread_mutex_lock")));
  locks.fetch_add(1, std::memory_order_relaxed);
  return next.load()(mutex);
}

namespace roda::test {
namespace {

TEST(Costs, ACachedAllreduceTakesNoMemoryAndTwoLocks) {
  constexpr int kWarm = 200, kCounted = 1000;
  const std::vector<std::int64_t> shape{4};
  float values[4] = {};
  roda_op op = make_op(RODA_ALLREDUCE, "costs", shape, values, values);
  op.flags = RODA_OP_WILL_WAIT;
  for (int i = 0; i < kWarm + kCounted; ++i) {
    if (i == kWarm) allocations = locks = 0;
    roda_handle handle = 0;
    ASSERT_EQ(roda_submit(&op, 1, &handle, nullptr), RODA_OK);
    ASSERT_EQ(roda_wait(handle, nullptr), RODA_OK);
    roda_release(handle);
  }
  // A rank that the others outrun now and then does more.
  EXPECT_LE(allocations, kCounted / 20);
  EXPECT_LE(locks, 2 * kCounted + kCounted / 20);
  EXPECT_GE(locks, kCounted) << "they are counted";
}

}  // namespace
}  // namespace roda::test

// Submitters that are called at the end instead of waiting for it.
#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <set>
#include <thread>

#include "tests/multi/engine/rank.h"

namespace roda::test {
namespace {

using Shape = std::vector<std::int64_t>;

// Counts what has ended, and does what a test wants at each end.
class Ends {
 public:
  using Then = std::function<void(roda_handle)>;

  int submit(const std::vector<roda_op>& ops, Then then = nullptr) {
    roda_handle handle = 0;
    const int code = roda_submit(ops.data(), static_cast<int>(ops.size()), &handle, nullptr);
    if (code == RODA_OK) call(handle, std::move(then));
    return code;
  }
  void call(roda_handle handle, Then then = nullptr) {
    ASSERT_EQ(roda_then(handle, &Ends::done, new Call{this, std::move(then)}, nullptr), RODA_OK);
  }

  // Waits for so many ends.
  void await(int count) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return codes_.size() >= static_cast<std::size_t>(count); });
  }

  // Of each end, in their order.
  std::vector<int> codes() {
    const std::lock_guard lock(mutex_);
    return codes_;
  }
  std::vector<std::thread::id> threads() {
    const std::lock_guard lock(mutex_);
    return threads_;
  }

 private:
  struct Call {
    Ends* ends;
    Then then;
  };

  static void done(void* context, roda_handle handle) {
    const std::unique_ptr<Call> call(static_cast<Call*>(context));
    const int code = roda_wait(handle, nullptr);
    if (call->then) call->then(handle);
    const std::lock_guard lock(call->ends->mutex_);
    call->ends->codes_.push_back(code);
    call->ends->threads_.push_back(std::this_thread::get_id());
    call->ends->changed_.notify_all();
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<int> codes_;
  std::vector<std::thread::id> threads_;
};

// What has ended before its submitter asked is called by that thread.
TEST(Continuations, EachIsCalledOnceByOneThreadOfTheEngine) {
  constexpr int kCount = 200;
  std::vector<float> data(kCount, 1.0F);
  const Shape one{1};
  Ends ends;
  for (int i = 0; i < kCount; ++i) {
    float* x = &data[static_cast<std::size_t>(i)];
    ASSERT_EQ(ends.submit({make_op(RODA_ALLREDUCE, "each." + std::to_string(i), one, x, x)}), RODA_OK);
  }
  ends.await(kCount);
  EXPECT_EQ(ends.codes(), std::vector<int>(kCount, RODA_OK));
  std::set<std::thread::id> threads;
  for (const std::thread::id id : ends.threads()) threads.insert(id);
  threads.erase(std::this_thread::get_id());
  EXPECT_LE(threads.size(), 1U);
  EXPECT_EQ(data, std::vector<float>(kCount, static_cast<float>(size())));
}

TEST(Continuations, WhatHasEndedIsCalledAtOnceAndReleased) {
  float x = 1;
  const Shape one{1};
  roda_handle handle = 0;
  const roda_op op = make_op(RODA_ALLREDUCE, "ended", one, &x, &x);
  ASSERT_EQ(roda_submit(&op, 1, &handle, nullptr), RODA_OK);
  ASSERT_EQ(roda_wait(handle, nullptr), RODA_OK);
  Ends ends;
  ends.call(handle);
  EXPECT_EQ(ends.threads(), std::vector{std::this_thread::get_id()});
  EXPECT_EQ(roda_poll(handle), RODA_ERR_INVALID);
  EXPECT_EQ(roda_then(handle, nullptr, nullptr, nullptr), RODA_ERR_INVALID);
}

// What a rank waits for may be submitted by another only when something later has ended there: who waits for handles in
// the order of their submission would wait for ever.
TEST(Continuations, WhatEndsFirstIsCalledFirst) {
  float early = 1;
  float late = 1;
  const Shape one{1};
  const auto submit_early = [&](Ends* ends) {
    return ends->submit({make_op(RODA_ALLREDUCE, "early", one, &early, &early)});
  };
  Ends ends;
  if (rank() == 0) {
    ASSERT_EQ(submit_early(&ends), RODA_OK);
  }
  ASSERT_EQ(ends.submit({make_op(RODA_ALLREDUCE, "late", one, &late, &late)},
                        [&](roda_handle) {
                          if (rank() == 0) return;
                          EXPECT_EQ(submit_early(&ends), RODA_OK);
                        }),
            RODA_OK);
  ends.await(2);
  EXPECT_EQ(early, static_cast<float>(size()));
  EXPECT_EQ(late, static_cast<float>(size()));
}

TEST(Continuations, OneMayWaitForWhatItSubmits) {
  float x = 1;
  float y = 1;
  const Shape one{1};
  Ends ends;
  ASSERT_EQ(
      ends.submit({make_op(RODA_ALLREDUCE, "outer", one, &x, &x)},
                  [&](roda_handle) { EXPECT_EQ(run(make_op(RODA_ALLREDUCE, "inner", one, &y, &y)).code, RODA_OK); }),
      RODA_OK);
  ends.await(1);
  EXPECT_EQ(y, static_cast<float>(size()));
}

// The thread that calls holds the engine, and sleeps with it, until what it waits for ends: here that is when this rank
// has got its memory, and not before.
TEST(Continuations, MemoryIsLentWhileTheEngineWaits) {
  std::vector<float> data(1024, 1.0F);
  const Shape shape{1024};
  ASSERT_EQ(run(make_op(RODA_ALLREDUCE, "connects", shape, data.data(), data.data())).code, RODA_OK);
  float early = 1;
  float late = 1;
  const Shape one{1};
  Ends ends;
  if (rank() == 0) {
    ASSERT_EQ(ends.submit({make_op(RODA_ALLREDUCE, "early", one, &early, &early)}), RODA_OK);
    std::this_thread::sleep_for(std::chrono::milliseconds(100));  // or it may not sleep yet, which proves nothing
  }
  void* memory = nullptr;
  void* owner = nullptr;
  const int code = roda_lend_memory(0, 5001, &memory, &owner, nullptr);
  EXPECT_TRUE(code == RODA_OK || code == RODA_ERR_UNAVAILABLE) << code;
  if (code == RODA_OK) {
    EXPECT_EQ(static_cast<char*>(memory)[5000], 0);
  }
  ASSERT_EQ(run(make_op(RODA_ALLREDUCE, "late", one, &late, &late)).code, RODA_OK);
  if (rank() != 0) {
    ASSERT_EQ(ends.submit({make_op(RODA_ALLREDUCE, "early", one, &early, &early)}), RODA_OK);
  }
  ends.await(1);
  roda_give_memory_back(owner);
  EXPECT_EQ(early, static_cast<float>(size()));
  EXPECT_EQ(roda_lend_memory(7, 1, &memory, &owner, nullptr), RODA_ERR_UNAVAILABLE);
}

TEST(Continuations, AGroupIsCalledWhenItsLastOneHasEnded) {
  std::vector<float> data{1, 2};
  const Shape one{1};
  Ends ends;
  ASSERT_EQ(ends.submit({make_op(RODA_ALLREDUCE, "a", one, &data[0], &data[0]),
                         make_op(RODA_ALLREDUCE, "b", one, &data[1], &data[1])}),
            RODA_OK);
  ends.await(1);
  EXPECT_EQ(data, (std::vector<float>{static_cast<float>(size()), static_cast<float>(2 * size())}));
}

struct Memory {
  Shape shape;
  std::vector<float> values;
  static void* make(void* context, const std::int64_t* shape, std::int32_t ndim, std::uint64_t bytes) {
    auto* memory = static_cast<Memory*>(context);
    memory->shape.assign(shape, shape + ndim);
    memory->values.resize(bytes / sizeof(float));
    return memory->values.data();
  }
};

TEST(Continuations, AnOutputLiesInTheCallersMemory) {
  const std::vector<float> mine(static_cast<std::size_t>(2 * (rank() + 1)), static_cast<float>(rank()));
  const Shape shape{rank() + 1, 2};
  Memory memory;
  roda_op op = make_op(RODA_ALLGATHER, "gathered", shape, mine.data(), nullptr);
  op.allocate = &Memory::make;
  op.allocate_context = &memory;
  Ends ends;
  ASSERT_EQ(ends.submit({op},
                        [&](roda_handle handle) {
                          roda_output output{};
                          output.struct_size = sizeof output;
                          EXPECT_EQ(roda_get_output(handle, 0, &output, nullptr), RODA_OK);
                          EXPECT_EQ(output.data, memory.values.data());
                          EXPECT_EQ(output.owner, nullptr);
                        }),
            RODA_OK);
  ends.await(1);
  EXPECT_EQ(memory.shape, (Shape{size() * (size() + 1) / 2, 2}));
  std::vector<float> expected;
  for (int r = 0; r < size(); ++r)
    expected.insert(expected.end(), static_cast<std::size_t>(2 * (r + 1)), static_cast<float>(r));
  EXPECT_EQ(memory.values, expected);
}

TEST(Continuations, WhatIsRefusedAtOnceIsNotCalled) {
  float x = 1;
  const Shape one{1};
  Ends ends;
  EXPECT_EQ(ends.submit({make_op(RODA_ALLREDUCE, "", one, &x, &x)}), RODA_ERR_INVALID);
  ASSERT_EQ(ends.submit({make_op(RODA_ALLREDUCE, "accepted", one, &x, &x)}), RODA_OK);
  ends.await(1);
  EXPECT_EQ(ends.codes().size(), 1U);
}

// The ranks find out together.
TEST(Continuations, AMismatchIsTold) {
  std::vector<float> data(4, 1.0F);
  const Shape shape{rank() == 0 ? 4 : 3};
  if (size() == 1) GTEST_SKIP() << "nobody else";
  Ends ends;
  ASSERT_EQ(ends.submit({make_op(RODA_ALLREDUCE, "mismatch", shape, data.data(), data.data())}), RODA_OK);
  ends.await(1);
  EXPECT_NE(ends.codes().front(), RODA_OK);
}

// The last test: nobody else submits it, and the end of the engine ends it.
TEST(Continuations, TheEndOfTheEngineIsTold) {
  float x = 1;
  const Shape one{1};
  if (size() == 1) GTEST_SKIP() << "it would run";
  Ends ends;
  const int expected = rank() == 0 ? 1 : 0;
  for (int i = 0; i < expected; ++i) {
    ASSERT_EQ(ends.submit({make_op(RODA_ALLREDUCE, "alone", one, &x, &x)}), RODA_OK);
  }
  ASSERT_EQ(run(make_op(RODA_BARRIER, "", {}, nullptr, nullptr)).code, RODA_OK);
  roda_shutdown();
  EXPECT_EQ(ends.codes(), std::vector<int>(static_cast<std::size_t>(expected), RODA_ERR_UNKNOWN)) << "shut down";
}

}  // namespace
}  // namespace roda::test

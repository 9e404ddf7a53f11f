// Native stages: what reaches the transport, and how refusals and failures come back. The loop has no collectives, so
// its table is borrowed and given a broadcast of one rank that counts its calls.
#include <gtest/gtest.h>

#include <cstring>

#include "tests/unit/execute/world.h"
#include "transports/loop/loop.h"

namespace roda::execute::testing {
namespace {

int calls = 0;
bool fails = false;
roda_collective_args seen{};

uint64_t capabilities(roda_context* context) {
  return roda_loop_transport()->context_capabilities(context) | RODA_CAP_NATIVE;
}

int32_t supported(roda_context*, int32_t collective, int32_t, int32_t, int32_t) { return collective == RODA_BROADCAST; }

// Busy at first, then done at once.
int32_t start(roda_group*, const roda_collective_args* args, roda_request** request, roda_error* error) {
  if (++calls == 1) return RODA_AGAIN;
  if (fails) return Status::peer(0, "the collective broke").to(error);
  seen = *args;
  *request = nullptr;
  std::memset(args->output, 7, args->count);
  return RODA_OK;
}

class NativeStage : public ::testing::Test {
 protected:
  NativeStage() : transport_(*roda_loop_transport()) {
    transport_.context_capabilities = capabilities;
    transport_.collective_supported = supported;
    transport_.collective_start = start;
    calls = 0;
    fails = false;
    seen = roda_collective_args{};
  }

  static StageArgs broadcast(unsigned char* data, std::size_t count) {
    StageArgs args;
    args.collective = RODA_BROADCAST;
    args.dtype = RODA_UINT8;
    args.output = data;
    args.count = count;
    args.launch = 9;
    return args;
  }

  roda_transport transport_;
};

TEST_F(NativeStage, RetriesUntilAcceptedAndPassesTheArguments) {
  const auto body = [](Rank& self) {
    unsigned char data[5] = {};
    EXPECT_TRUE(self.run("native", broadcast(data, 5)).ok());
    EXPECT_EQ(data[4], 7);
  };
  run_world(1, tiny_options(), body, &transport_);
  EXPECT_EQ(calls, 2);
  EXPECT_EQ(seen.count, 5u);
  EXPECT_EQ(seen.dtype, RODA_UINT8);
  EXPECT_EQ(seen.input, seen.output);
  EXPECT_NE(seen.tag, 0u);
}

TEST_F(NativeStage, AFailureEndsTheGroup) {
  fails = true;
  const auto body = [](Rank& self) {
    unsigned char data[5] = {};
    EXPECT_EQ(self.run("native", broadcast(data, 5)).message(), "the collective broke");
    EXPECT_TRUE(self.group.aborted());
    EXPECT_EQ(self.run("native", broadcast(data, 5)).message(), "the collective broke");
  };
  run_world(1, tiny_options(), body, &transport_);
  EXPECT_EQ(calls, 2);
}

TEST_F(NativeStage, OneThatIsPutOffIsNotOvertaken) {
  const auto body = [](Rank& self) {
    unsigned char first[5] = {}, second[3] = {};
    StageHandle stages[2];
    for (StageHandle& stage : stages) ASSERT_TRUE(self.acquire(RODA_BROADCAST, "native", 0, &stage).ok());
    ASSERT_TRUE(stages[0]->start(broadcast(first, 5)).ok());
    ASSERT_TRUE(stages[1]->start(broadcast(second, 3)).ok());
    bool done = false;
    EXPECT_TRUE(stages[0]->test(&done).ok());  // put off
    EXPECT_TRUE(stages[1]->test(&done).ok());
    EXPECT_FALSE(done);
    EXPECT_EQ(calls, 1);
    EXPECT_TRUE(self.finish(*stages[0]).ok());
    EXPECT_EQ(seen.count, 5u);
    EXPECT_TRUE(self.finish(*stages[1]).ok());
    EXPECT_EQ(seen.count, 3u);
  };
  run_world(1, tiny_options(), body, &transport_);
}

TEST_F(NativeStage, WhatTheTransportLacksIsRefusedAtTheStart) {
  const auto body = [](Rank& self) {
    float value = 1;
    StageArgs args;
    args.input = args.output = &value;
    args.count = 1;
    EXPECT_EQ(self.run("native", args).code(), RODA_ERR_UNSUPPORTED);
  };
  run_world(1, tiny_options(), body, &transport_);
  EXPECT_EQ(calls, 0);
}

}  // namespace
}  // namespace roda::execute::testing

// Texts of steps and the needs of schedules.
#include "algorithms/schedule/schedule.h"

#include <gtest/gtest.h>

#include "algorithms/schedule/build.h"
#include "algorithms/schedule/program.h"

namespace roda::schedule {
namespace {

TEST(Print, Ranges) {
  EXPECT_EQ(to_text(output(2)), "output[2]");
  EXPECT_EQ(to_text(input(2, 3)), "input[2..5)");
  EXPECT_EQ(to_text(scratch(0)), "scratch[0]");
  EXPECT_EQ(to_text(nothing()), "nothing");
}

TEST(Print, Steps) {
  EXPECT_EQ(to_text(step::send(3, output(1))), "send output[1] to 3");
  EXPECT_EQ(to_text(step::recv(3, output(1))), "recv output[1] from 3");
  EXPECT_EQ(to_text(step::recv_reduce(3, scratch(0), input(1))), "recv_reduce scratch[0] = input[1] + message from 3");
  EXPECT_EQ(to_text(step::copy(output(0), input(1))), "copy output[0] = input[1]");
  EXPECT_EQ(to_text(step::reduce(output(0), input(1))), "reduce output[0] += input[1]");
  EXPECT_EQ(to_text(step::get(2, output(0), input(1))), "get output[0] = input[1] of 2");
  EXPECT_EQ(to_text(step::get_reduce(2, output(0), input(1))), "get_reduce output[0] += input[1] of 2");
  EXPECT_EQ(to_text(step::put(2, output(0), input(1))), "put output[0] of 2 = input[1]");
  EXPECT_EQ(to_text(step::signal(kAllPeers)), "signal 0 to all");
  EXPECT_EQ(to_text(step::wait(4, 1)), "wait for signal 1 from 4");
}

TEST(Print, ProgramHasALineForEachOp) {
  Program ring;
  ASSERT_FALSE(compile(*find_algorithm(Collective::kAllreduce, "ring"), 1, 2, 0, &ring));
  EXPECT_EQ(to_text(ring),
            "allreduce/ring rank 1 of 2, 2 chunks\n"
            "  lane 0 step 0: send output[1] to 0\n"
            "  lane 0 step 1: recv_reduce output[0] = output[0] + message from 0\n"
            "  lane 0 step 2: send output[0] to 0\n"
            "  lane 0 step 3: recv output[1] from 0\n");
}

TEST(Needs, AreTheUnionOverLanes) {
  Schedule schedule = begin("made_up", Collective::kAllreduce, 0, 2, 2, 2);
  EXPECT_EQ(needs_of(schedule), 0u);
  schedule.lanes[0].steps = {step::copy(output(0), output(1)), step::send(1, output(0))};
  schedule.lanes[1].steps = {step::signal(1), step::put(1, output(1), output(1))};
  EXPECT_EQ(needs_of(schedule), kNeedsMessages | kNeedsSignals | kNeedsPut);
  schedule.lanes[1].steps = {step::get(1, output(1), output(1))};
  EXPECT_EQ(needs_of(schedule), kNeedsMessages | kNeedsGet);
}

TEST(CollectiveName, OfAll) {
  EXPECT_STREQ(collective_name(Collective::kReduceScatter), "reducescatter");
  EXPECT_STREQ(collective_name(static_cast<Collective>(RODA_COLLECTIVE_COUNT)), "?");
}

}  // namespace
}  // namespace roda::schedule

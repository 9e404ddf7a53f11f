// The verifier's own test: it objects to every schedule that lacks a step, or has two of its steps in the other order
// where that matters, or goes to another peer.
#include <gtest/gtest.h>

#include <string>

#include "algorithms/schedule/schedule.h"
#include "algorithms/schedule/verifier.h"
#include "tests/unit/algorithms/schedules.h"

namespace roda::schedule {
namespace {

class Mutation : public testing::TestWithParam<const Algorithm*> {
 protected:
  // Calls f(ranks, steps, index) for every step of every lane, each time on a fresh copy.
  template <typename F>
  void for_each_step(int size, F f) {
    if (!GetParam()->accepts(size)) return;
    const int root = is(GetParam()->collective, RODA_ROOTED) ? size / 2 : 0;
    const std::vector<Schedule> whole = schedules_of(GetParam()->collective, GetParam()->name, size, root);
    ASSERT_FALSE(verify(whole));
    for (std::size_t rank = 0; rank < whole.size(); ++rank) {
      for (std::size_t lane = 0; lane < whole[rank].lanes.size(); ++lane) {
        for (std::size_t index = 0; index < whole[rank].lanes[lane].steps.size(); ++index) {
          std::vector<Schedule> ranks = whole;
          SCOPED_TRACE("rank " + std::to_string(rank) + " step " + std::to_string(index) + ": " +
                       to_text(whole[rank].lanes[lane].steps[index]));
          f(ranks, ranks[rank].lanes[lane].steps, index);
        }
      }
    }
  }
};

TEST_P(Mutation, EveryStepIsNeeded) {
  for (const int size : {2, 3, 4, 7}) {
    for_each_step(size, [](std::vector<Schedule>& ranks, std::vector<Step>& steps, std::size_t index) {
      steps.erase(steps.begin() + static_cast<std::ptrdiff_t>(index));
      EXPECT_TRUE(verify(ranks));
    });
  }
}

TEST_P(Mutation, EveryStepIsNeededOnce) {
  for_each_step(4, [](std::vector<Schedule>& ranks, std::vector<Step>& steps, std::size_t index) {
    const Step step = steps[index];
    const bool harmless = step.kind == StepKind::kCopy || step.kind == StepKind::kGet || step.kind == StepKind::kDots;
    steps.insert(steps.begin() + static_cast<std::ptrdiff_t>(index), step);
    EXPECT_EQ(verify(ranks).has_value(), !harmless);
  });
}

TEST_P(Mutation, EveryPeerMatters) {
  for_each_step(4, [](std::vector<Schedule>& ranks, std::vector<Step>& steps, std::size_t index) {
    Step& step = steps[index];
    if (step.kind == StepKind::kCopy || step.kind == StepKind::kReduce || step.other.count > 0) return;
    step.peer = step.peer == kAllPeers ? 0 : (step.peer + 1) % 4;
    EXPECT_TRUE(verify(ranks));
  });
}

TEST_P(Mutation, EveryRangeMatters) {
  for_each_step(4, [](std::vector<Schedule>& ranks, std::vector<Step>& steps, std::size_t index) {
    if (steps[index].dst.count == 0) return;
    ++steps[index].dst.first;
    EXPECT_TRUE(verify(ranks));
  });
}

INSTANTIATE_TEST_SUITE_P(All, Mutation, testing::ValuesIn(algorithms()), [](const auto& info) {
  return std::string(collective_name(info.param->collective)) + "_" + info.param->name;
});

}  // namespace
}  // namespace roda::schedule

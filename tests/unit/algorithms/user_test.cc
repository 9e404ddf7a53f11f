// Algorithms of the user's: believed only where they are proved.
#include "algorithms/schedule/user.h"

#include <gtest/gtest.h>

#include "algorithms/schedule/build.h"
#include "algorithms/schedule/verifier.h"

namespace roda::schedule {
namespace {

// Everybody sends to rank 0, which adds and sends back; where `is_wrong`, it forgets the last one.
Draft star(bool is_wrong = false) {
  Draft draft;
  draft.name = "a_star";
  draft.summary = "a test";
  draft.source = "here";
  draft.accepts = [](int size) { return size >= 2 && size <= 6; };
  draft.make = [is_wrong](int rank, int size, Schedule* schedule) -> std::optional<std::string> {
    *schedule = begin("", Collective::kAllreduce, rank, size, 1);
    auto& steps = schedule->lanes[0].steps;
    if (rank != 0) steps = {step::send(0, output(0)), step::recv(0, output(0))};
    for (int peer = 1; rank == 0 && peer < size; ++peer) {
      const bool forgets = is_wrong && peer == size - 1;
      steps.push_back(forgets ? step::recv(peer, scratch(0)) : step::recv_reduce(peer, output(0)));
    }
    for (int peer = 1; rank == 0 && peer < size; ++peer) steps.push_back(step::send(peer, output(0)));
    schedule->scratch_chunks = is_wrong ? 1 : 0;
    return std::nullopt;
  };
  return draft;
}

TEST(UserAlgorithm, RunsWhereItIsProved) {
  const UserAlgorithm mine(star());
  EXPECT_FALSE(mine.wrong_with(4));
  EXPECT_EQ(mine.wrong_with(7), "a_star does not run on 7 ranks");
  EXPECT_TRUE(mine.algorithm().accepts(6));
  EXPECT_EQ(mine.algorithm().needs, kNeedsMessages);
  EXPECT_EQ(mine.algorithm().make(2, 4, 0).algorithm, "a_star");
}

TEST(UserAlgorithm, IsRefusedWhereTheVerifierObjects) {
  const UserAlgorithm mine(star(true));
  EXPECT_EQ(mine.wrong_with(3), "a_star: rank 0: output[0] ends with 2 of 3 contributions on 3 ranks");
  EXPECT_FALSE(mine.algorithm().accepts(3));
}

TEST(UserAlgorithm, SaysWhyItMakesNoSchedule) {
  Draft draft = star();
  draft.make = [](int, int, Schedule*) -> std::optional<std::string> { return "it is Sunday"; };
  EXPECT_EQ(UserAlgorithm(draft).wrong_with(2), "a_star on 2 ranks: rank 0: it is Sunday");
}

// One schedule of a broadcast serves every root.
TEST(UserAlgorithm, BroadcastsCountFromTheirRoot) {
  Draft draft = star();
  draft.collective = Collective::kBroadcast;
  draft.make = [](int rank, int size, Schedule* schedule) -> std::optional<std::string> {
    *schedule = begin("", Collective::kBroadcast, rank, size, 1);
    auto& steps = schedule->lanes[0].steps;
    if (rank > 0) steps.push_back(step::recv(rank - 1, output(0)));
    if (rank + 1 < size) steps.push_back(step::send(rank + 1, output(0)));
    return std::nullopt;
  };
  const UserAlgorithm mine(draft);
  for (int root = 0; root < 5; ++root) {
    std::vector<Schedule> ranks;
    for (int rank = 0; rank < 5; ++rank) {
      ranks.push_back(mine.algorithm().make(rank, 5, root));
      EXPECT_EQ(ranks.back().rank, rank);
      EXPECT_EQ(ranks.back().root, root);
    }
    const auto violation = verify(ranks);
    EXPECT_FALSE(violation) << violation->to_text();
  }
}

TEST(UserAlgorithms, HaveNamesOfTheirOwn) {
  EXPECT_FALSE(wrong_name(Collective::kAllreduce, "mine_2"));
  EXPECT_EQ(wrong_name(Collective::kAllreduce, "ring"), "there is an algorithm allreduce/ring already");
  EXPECT_FALSE(wrong_name(Collective::kBroadcast, "ring"));
  EXPECT_TRUE(wrong_name(Collective::kAllreduce, "My own"));
  EXPECT_TRUE(wrong_name(Collective::kAllreduce, "native"));
}

TEST(UserAlgorithms, AreFoundWhileTheyAreSet) {
  set_user_algorithms({std::make_shared<UserAlgorithm>(star())});
  const Algorithm* found = find_algorithm(Collective::kAllreduce, "a_star");
  ASSERT_NE(found, nullptr);
  set_user_algorithms({});
  EXPECT_EQ(find_algorithm(Collective::kAllreduce, "a_star"), nullptr);
  EXPECT_TRUE(found->accepts(3));  // whoever has it may keep it
}

}  // namespace
}  // namespace roda::schedule

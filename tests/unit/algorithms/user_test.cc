// Algorithms of the user's: believed only where they are proved.
#include "algorithms/schedule/user.h"

#include <gtest/gtest.h>

#include "algorithms/schedule/build.h"
#include "algorithms/schedule/verifier.h"

namespace roda::schedule {
namespace {

std::vector<Schedule> of_ranks(int size, Collective collective, void (*fill)(int rank, int size, Schedule* schedule)) {
  std::vector<Schedule> ranks;
  for (int rank = 0; rank < size; ++rank) {
    ranks.push_back(begin("a_star", collective, rank, size, 1));
    fill(rank, size, &ranks.back());
  }
  return ranks;
}

// Everybody sends to rank 0, which adds and sends back; where `forgets`, not the last one's.
template <bool forgets>
void star(int rank, int size, Schedule* schedule) {
  auto& steps = schedule->lanes[0].steps;
  if (rank != 0) steps = {step::send(0, output(0)), step::recv(0, output(0))};
  for (int peer = 1; rank == 0 && peer < size; ++peer) {
    const bool is_lost = forgets && peer == size - 1;
    steps.push_back(is_lost ? step::recv(peer, scratch(0)) : step::recv_reduce(peer, output(0)));
  }
  for (int peer = 1; rank == 0 && peer < size; ++peer) steps.push_back(step::send(peer, output(0)));
  schedule->scratch_chunks = forgets ? 1 : 0;
}

template <bool forgets = false>
std::shared_ptr<const UserAlgorithm> made() {
  UserAlgorithm::BySize sizes;
  for (int size = 2; size <= 6; ++size) sizes[size] = of_ranks(size, Collective::kAllreduce, star<forgets>);
  return std::make_shared<const UserAlgorithm>(Collective::kAllreduce, "a_star", "here", "", std::move(sizes));
}

TEST(UserAlgorithm, RunsWhereItIsProved) {
  const auto own = made();
  const UserAlgorithm& mine = *own;
  EXPECT_FALSE(mine.wrong_with(4));
  EXPECT_EQ(mine.wrong_with(7), "a_star does not run on 7 ranks");
  EXPECT_TRUE(mine.algorithm().accepts(6));
  EXPECT_EQ(mine.algorithm().needs, kNeedsMessages);
  EXPECT_EQ(mine.algorithm().make(2, 4, 0).algorithm, "a_star");
}

TEST(UserAlgorithm, IsRefusedWhereTheVerifierObjects) {
  const auto own = made<true>();
  const UserAlgorithm& mine = *own;
  EXPECT_EQ(mine.wrong_with(3), "a_star: rank 0: output[0] ends with 2 of 3 contributions on 3 ranks");
  EXPECT_FALSE(mine.algorithm().accepts(3));
}

// One schedule of a broadcast serves every root.
TEST(UserAlgorithm, BroadcastsCountFromTheirRoot) {
  const auto chain = [](int rank, int size, Schedule* schedule) {
    auto& steps = schedule->lanes[0].steps;
    if (rank > 0) steps.push_back(step::recv(rank - 1, output(0)));
    if (rank + 1 < size) steps.push_back(step::send(rank + 1, output(0)));
  };
  const UserAlgorithm mine(Collective::kBroadcast, "a_chain", "here", "",
                           {{5, of_ranks(5, Collective::kBroadcast, chain)}});
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
  set_user_algorithms({made()});
  const Algorithm* found = find_algorithm(Collective::kAllreduce, "a_star");
  ASSERT_NE(found, nullptr);
  set_user_algorithms({});
  EXPECT_EQ(find_algorithm(Collective::kAllreduce, "a_star"), nullptr);
  EXPECT_TRUE(found->accepts(3));  // whoever has it may keep it
}

}  // namespace
}  // namespace roda::schedule

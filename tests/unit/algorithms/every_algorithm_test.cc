// Every algorithm that is linked in, for every size up to 64, is proved right by the verifier: the programs that ranks
// are handed.
#include <gtest/gtest.h>

#include <numeric>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "algorithms/schedule/program.h"
#include "algorithms/schedule/schedule.h"
#include "algorithms/schedule/verifier.h"

namespace roda::schedule {
namespace {

constexpr int kMaxSize = 64;

std::string full_name(const Algorithm& algorithm) {
  return std::string(collective_name(algorithm.collective)) + "_" + algorithm.name;
}

class EveryAlgorithm : public testing::TestWithParam<const Algorithm*> {};

// Every root of small groups; of others the first, the last and some between.
std::vector<int> roots_of(const Algorithm& algorithm, int size) {
  if (!is(algorithm.collective, RODA_ROOTED)) return {0};
  if (size > 32) return {0, size / 3, size / 2, size - 1};
  std::vector<int> all(static_cast<std::size_t>(size));
  std::iota(all.begin(), all.end(), 0);
  return all;
}

TEST_P(EveryAlgorithm, IsRightForEverySize) {
  const Algorithm& algorithm = *GetParam();
  for (int size = 1; size <= kMaxSize; ++size) {
    if (!algorithm.accepts(size)) continue;
    for (const int root : roots_of(algorithm, size)) {
      std::vector<Schedule> ranks;
      for (int rank = 0; rank < size; ++rank) {
        ranks.push_back(algorithm.make(rank, size, root));
        ASSERT_EQ(ranks.back().algorithm, algorithm.name);
        ASSERT_EQ(ranks.back().collective, algorithm.collective);
      }
      const std::string shape = "size " + std::to_string(size) + " root " + std::to_string(root);
      ASSERT_EQ(needs_of(ranks), size == 1 ? 0 : algorithm.needs) << shape;
      const Compiled made = compile(ranks, algorithm.needs);
      ASSERT_FALSE(made.wrong) << shape << ": " << *made.wrong;
      const auto violation = verify(made.ranks);
      ASSERT_FALSE(violation) << shape << ": " << violation->to_text();
      for (const int rank : {0, size / 2, size - 1}) {  // what the executor asks for
        Program program;
        ASSERT_FALSE(compile(algorithm, rank, size, root, &program)) << shape;
        ASSERT_EQ(program, made.ranks[static_cast<std::size_t>(rank)]) << shape << " rank " << rank;
      }
    }
  }
}

TEST_P(EveryAlgorithm, DescribesItself) {
  const Algorithm& algorithm = *GetParam();
  EXPECT_FALSE(std::string(algorithm.name).empty());
  EXPECT_GT(std::string(algorithm.summary).size(), 20u);
  EXPECT_LE(std::string(algorithm.summary).size(), 130u);
  EXPECT_TRUE(algorithm.accepts(1));
  EXPECT_FALSE(algorithm.accepts(0));
  EXPECT_EQ(find_algorithm(algorithm.collective, algorithm.name), &algorithm);
}

// One rank talks to nobody.
TEST_P(EveryAlgorithm, NeedsNothingAlone) { EXPECT_EQ(needs_of(GetParam()->make(0, 1, 0)), 0u); }

TEST_P(EveryAlgorithm, IsPure) {
  const Schedule first = GetParam()->make(2, 7, 3);
  const Schedule second = GetParam()->make(2, 7, 3);
  ASSERT_EQ(first.lanes.size(), second.lanes.size());
  for (std::size_t lane = 0; lane < first.lanes.size(); ++lane) {
    EXPECT_EQ(first.lanes[lane].steps, second.lanes[lane].steps);
  }
}

INSTANTIATE_TEST_SUITE_P(All, EveryAlgorithm, testing::ValuesIn(algorithms()),
                         [](const auto& info) { return full_name(*info.param); });

// The list of what there is: a new algorithm adds its line.
TEST(Algorithms, AreThese) {
  std::vector<std::string> names;
  for (const Algorithm* algorithm : algorithms()) names.push_back(full_name(*algorithm));
  const std::vector<std::string> expected = {
      "allreduce_binomial",
      "allreduce_direct",
      "allreduce_double_binary_tree",
      "allreduce_oneshot",
      "allreduce_ordered",
      "allreduce_rabenseifner",
      "allreduce_recursive_doubling",
      "allreduce_ring",
      "allreduce_twoshot",
      "allgather_bruck",
      "allgather_direct",
      "allgather_ring",
      "broadcast_binomial",
      "broadcast_direct",
      "broadcast_double_binary_tree",
      "broadcast_scatter_allgather",
      "adasum_vector_halving",
      "alltoall_direct",
      "alltoall_pairwise",
      "barrier_dissemination",
      "barrier_signal",
      "reducescatter_direct",
      "reducescatter_direct_ordered",
      "reducescatter_ordered",
      "reducescatter_pairwise",
      "reducescatter_recursive_halving",
      "reducescatter_ring",
      "reduce_binomial",
      "reduce_direct",
      "reduce_double_binary_tree",
      "reduce_ordered",
  };
  EXPECT_EQ(names, expected);
}

TEST(Algorithms, AreFoundByCollectiveAndName) {
  EXPECT_NE(find_algorithm(Collective::kAllreduce, "ring"), find_algorithm(Collective::kAllgather, "ring"));
  EXPECT_EQ(find_algorithm(Collective::kBarrier, "ring"), nullptr);
  EXPECT_EQ(find_algorithm(Collective::kAllreduce, "native"), nullptr);
}

}  // namespace
}  // namespace roda::schedule

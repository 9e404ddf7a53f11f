// Composed plans are proved right: world sizes to 64, up to three levels, even and uneven hosts and racks, every
// combination of algorithms.
#include <gtest/gtest.h>

#include <random>

#include "algorithms/plan/plan.h"
#include "tests/unit/plan/proved.h"

namespace roda::plan {
namespace {

constexpr int kMaxSize = 64;

const std::vector<Choice>& choices() {
  static const std::vector<Choice> all = [] {
    std::vector<Choice> made;
    for (const char* scatter : {"ring", "pairwise", "recursive_halving", "direct"}) {
      for (const char* gather : {"ring", "bruck", "direct"}) {
        for (const char* reduce :
             {"ring", "recursive_doubling", "rabenseifner", "binomial", "double_binary_tree", "direct"}) {
          made.push_back({scatter, reduce, gather});
        }
      }
    }
    return made;
  }();
  return all;
}

// Cuts 0 .. count - 1 into runs of 1 to `most`.
std::vector<std::int32_t> random_units(std::size_t count, int most, std::mt19937& random) {
  std::vector<std::int32_t> unit_of;
  for (std::int32_t unit = 0; unit_of.size() < count; ++unit) {
    const std::size_t members = 1 + random() % static_cast<unsigned>(most);
    unit_of.insert(unit_of.end(), std::min(members, count - unit_of.size()), unit);
  }
  return unit_of;
}

std::vector<std::int32_t> outer_units(const std::vector<std::int32_t>& inner, const std::vector<std::int32_t>& of) {
  std::vector<std::int32_t> units;
  for (const std::int32_t unit : inner) units.push_back(of[static_cast<std::size_t>(unit)]);
  return units;
}

std::string shape(const Grid& grid) {
  std::string text;
  for (const auto& place : grid.places()) {
    for (const std::int32_t at : place) text += std::to_string(at) + ".";
    text += " ";
  }
  return text;
}

void expect_right(const Plan& plan, const Grid& grid) {
  const auto violation = verify(plan, grid);
  ASSERT_FALSE(violation) << to_text(plan, grid) << "\n" << shape(grid) << "\n" << violation->to_text();
}

TEST(EveryPlan, OfTwoLevelsAndUnevenHosts) {
  std::mt19937 random(1);
  for (int size = 1; size <= kMaxSize; ++size) {
    for (int round = 0; round < 3; ++round) {
      const auto host_of = random_units(static_cast<std::size_t>(size), 1 + size / 2, random);
      const Grid grid = nested_grid({{"host", host_of}});
      const std::size_t first = random() % choices().size();
      const std::size_t second = random() % choices().size();
      ASSERT_NO_FATAL_FAILURE(expect_right(hierarchical(grid, {choices()[first], choices()[second]}), grid));
    }
  }
}

// What crosses between hosts in a format: gathered blocks are the same on all ranks, their owners' among them.
TEST(EveryPlan, OfFormatsBetweenUnevenHosts) {
  using enum schedule::Collective;
  std::mt19937 random(11);
  for (int size = 2; size <= 24; ++size) {
    const auto host_of = random_units(static_cast<std::size_t>(size), 1 + size / 2, random);
    const Grid grid = nested_grid({{"host", host_of}});
    const char* gather = size % 2 == 0 ? "ring/int8" : "bruck/int4_stochastic";
    const std::vector<Choice> choices{{"direct", "direct", "ring"}, {"ordered/int8", "ordered/int8", gather}};
    for (const auto collective : {kAllreduce, kReduceScatter, kAllgather}) {
      ASSERT_NO_FATAL_FAILURE(expect_right(hierarchical(collective, grid, choices), grid));
    }
  }
}

// Adasum among powers of two of hosts and ranks, which need not lie in order.
TEST(EveryPlan, OfAdasumBetweenHosts) {
  std::mt19937 random(7);
  for (int hosts = 1; hosts <= 16; hosts *= 2) {
    for (int inside = hosts == 1 ? 2 : 1; inside * hosts <= kMaxSize; inside *= 2) {
      std::vector<std::int32_t> host_of, rack_of;
      for (int rank = 0; rank < hosts * inside; ++rank) host_of.push_back(rank % hosts);
      std::shuffle(host_of.begin(), host_of.end(), random);
      const Choice& choice = choices()[random() % choices().size()];
      const Grid grid = nested_grid({{"host", host_of}});
      const Plan plan = hierarchical(schedule::Collective::kAdasum, grid, {choice});
      ASSERT_NO_FATAL_FAILURE(expect_right(plan, grid));
      if (plan.stages.size() < 3) continue;
      for (const std::int32_t host : host_of) rack_of.push_back(host / 2);
      const Grid racks = nested_grid({{"host", host_of}, {"rack", rack_of}});
      ASSERT_NO_FATAL_FAILURE(expect_right(hierarchical(schedule::Collective::kAdasum, racks, {choice}), racks));
    }
  }
}

TEST(EveryPlan, OfThreeLevelsAndUnevenRacks) {
  std::mt19937 random(2);
  for (int size = 2; size <= kMaxSize; ++size) {
    const auto host_of = random_units(static_cast<std::size_t>(size), 6, random);
    const auto hosts = static_cast<std::size_t>(host_of.back()) + 1;
    const auto rack_of = outer_units(host_of, random_units(hosts, 4, random));
    const Grid grid = nested_grid({{"host", host_of}, {"rack", rack_of}});
    std::vector<Choice> chosen;
    for (int axis = 0; axis < 3; ++axis) chosen.push_back(choices()[random() % choices().size()]);
    ASSERT_NO_FATAL_FAILURE(expect_right(hierarchical(grid, chosen), grid));
  }
}

TEST(EveryPlan, OfEveryCombinationOfAlgorithms) {
  const Grid even = nested_grid({{"host", {0, 0, 0, 1, 1, 1, 2, 2, 2, 3, 3, 3}}});
  const Grid uneven = nested_grid({{"host", {0, 1, 1, 2, 2, 2}}});
  for (const Choice& choice : choices()) {
    ASSERT_NO_FATAL_FAILURE(expect_right(hierarchical(even, {choice}), even));
    ASSERT_NO_FATAL_FAILURE(expect_right(hierarchical(uneven, {choice}), uneven));
  }
}

TEST(EveryPlan, OfEveryTorus) {
  for (int size = 1; size <= kMaxSize; ++size) {
    for (int x = 1; x <= size; ++x) {
      if (size % x != 0) continue;
      const Grid grid = torus_grid({x, size / x});
      ASSERT_NO_FATAL_FAILURE(
          expect_right(torus(grid, {choices()[static_cast<std::size_t>(size + x) % choices().size()]}), grid));
    }
  }
  const Grid cube = torus_grid({4, 3, 2});
  ASSERT_NO_FATAL_FAILURE(expect_right(torus(cube, {{"ring", "ring", "ring"}}), cube));
}

// A process set that cuts across hosts and racks: some hosts have one rank in it, some all of theirs.
TEST(EveryPlan, OfASetThatCutsAcrossHosts) {
  const Grid grid = nested_grid({{"host", {3, 1, 1, 3, 5, 5, 5, 2}}, {"rack", {1, 0, 0, 1, 1, 1, 1, 0}}});
  for (const Choice& choice : choices()) ASSERT_NO_FATAL_FAILURE(expect_right(hierarchical(grid, {choice}), grid));
}

const std::vector<schedule::Collective>& others() {
  static const std::vector<schedule::Collective> all = {
      schedule::Collective::kBroadcast, schedule::Collective::kAllgather, schedule::Collective::kReduceScatter,
      schedule::Collective::kAlltoall, schedule::Collective::kReduce};
  return all;
}

TEST(EveryPlan, OfTheOtherCollectivesOnTwoLevels) {
  std::mt19937 random(3);
  for (int size = 1; size <= kMaxSize; ++size) {
    const auto host_of = random_units(static_cast<std::size_t>(size), 1 + size / 3, random);
    const Grid grid = nested_grid({{"host", host_of}});
    for (const auto collective : others()) {
      ASSERT_NO_FATAL_FAILURE(expect_right(hierarchical(collective, grid, {}), grid));
    }
  }
}

TEST(EveryPlan, OfTheOtherCollectivesOnThreeAndFourLevels) {
  std::mt19937 random(4);
  for (int size = 2; size <= kMaxSize; ++size) {
    const auto socket_of = random_units(static_cast<std::size_t>(size), 4, random);
    const auto host_of =
        outer_units(socket_of, random_units(static_cast<std::size_t>(socket_of.back()) + 1, 3, random));
    const auto rack_of = outer_units(host_of, random_units(static_cast<std::size_t>(host_of.back()) + 1, 3, random));
    const Grid three = nested_grid({{"socket", socket_of}, {"host", host_of}});
    const Grid four = nested_grid({{"socket", socket_of}, {"host", host_of}, {"rack", rack_of}});
    for (const auto collective : others()) {
      ASSERT_NO_FATAL_FAILURE(expect_right(hierarchical(collective, three, {}), three));
      ASSERT_NO_FATAL_FAILURE(expect_right(hierarchical(collective, four, {}), four));
    }
    ASSERT_NO_FATAL_FAILURE(expect_right(hierarchical(four, {}), four));
  }
}

TEST(EveryPlan, OfHostsOfOneRankWithStagesOfTheirOwn) {
  for (std::int32_t size = 1; size <= 9; ++size) {
    std::vector<std::int32_t> host_of, rack_of;
    for (std::int32_t rank = 0; rank < size; ++rank) host_of.push_back(rank);
    for (std::int32_t rank = 0; rank < size; ++rank) rack_of.push_back(rank / 2);
    std::vector<Choice> alone(3);
    alone[0].even_alone = true;
    for (const Grid& grid : {nested_grid({{"host", host_of}}), nested_grid({{"host", host_of}, {"rack", rack_of}})}) {
      const Plan plan = hierarchical(grid, alone);
      EXPECT_EQ(plan.stages.front().axis, 0);
      ASSERT_NO_FATAL_FAILURE(expect_right(plan, grid));
      for (const auto collective : others()) {
        ASSERT_NO_FATAL_FAILURE(expect_right(hierarchical(collective, grid, alone), grid));
      }
    }
  }
}

TEST(EveryPlan, OfASetThatCutsAcrossHostsInTheOtherCollectives) {
  const Grid grid = nested_grid({{"host", {3, 1, 1, 3, 5, 5, 5, 2}}, {"rack", {1, 0, 0, 1, 1, 1, 1, 0}}});
  for (const auto collective : others()) {
    ASSERT_NO_FATAL_FAILURE(expect_right(hierarchical(collective, grid, {}), grid));
  }
}

TEST(EveryPlan, OfAnAllreduceAlongEachAxis) {
  for (const int hosts : {1, 2, 3, 5}) {
    std::vector<std::int32_t> host_of;
    for (std::int32_t host = 0; host < hosts; ++host) host_of.insert(host_of.end(), 4, host);
    const Grid grid = nested_grid({{"host", host_of}});
    ASSERT_NO_FATAL_FAILURE(expect_right(reduce_along_each_axis("two_step", grid, {}), grid));
  }
  const Grid uneven = nested_grid({{"host", {0, 1, 1}}});
  EXPECT_FALSE(uneven.is_even());
  EXPECT_TRUE(verify(reduce_along_each_axis("two_step", uneven, {}), uneven));
}

}  // namespace
}  // namespace roda::plan

// Levels, and the grids of a set's members on them.
#include "core/plan/plan.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "core/topology/lay_out.h"

namespace roda::engine {
namespace {

using Levels = std::vector<topology::Level>;
using topology::find_levels;

Shape on_hosts(const std::vector<int>& host_of, int self = 0) { return {{{"host", host_of}}, self}; }

TEST(Shape, OneHostHasOneAxisInUse) {
  const Shape shape = on_hosts({7, 7, 7}, 1);
  EXPECT_EQ(shape.hosts(), 1);
  EXPECT_EQ(shape.grid("hierarchical").axes_in_use().size(), 1u);
  EXPECT_EQ(shape.missing("torus"), "all ranks are on one host");
}

TEST(Shape, RanksOfHostsMayAlternate) {
  const Shape shape = on_hosts({4, 9, 4, 9}, 3);
  const plan::Grid& grid = shape.grid("hierarchical");
  EXPECT_EQ(grid.places()[3], (std::vector<std::int32_t>{1, 1}));
  EXPECT_EQ(grid.hosts(0), 1);
  EXPECT_EQ(grid.hosts(1), 2);
  EXPECT_TRUE(grid.is_even());
}

TEST(Shape, OfUnevenHostsKnowsEveryGroup) {
  const plan::Grid grid = on_hosts({0, 0, 0, 1, 2, 2}, 4).grid("hierarchical");
  EXPECT_FALSE(grid.is_even());
  EXPECT_EQ(grid.smallest(0), 1);
  EXPECT_EQ(grid.largest(0), 3);
  EXPECT_EQ(grid.sizes(0), (std::vector<int>{2, 3}));
}

TEST(Shape, EqualOnesHashEqually) {
  EXPECT_EQ(on_hosts({0, 1}, 0).hash(), on_hosts({0, 1}, 1).hash());
  EXPECT_NE(on_hosts({0, 1}).hash(), on_hosts({0, 0}).hash());
}

TEST(Shape, TorusOfHostsWithOneRankEachIsARectangle) {
  const plan::Grid grid = on_hosts({0, 1, 2, 3, 4, 5}).grid("torus");
  EXPECT_EQ(grid.names(), (std::vector<std::string>{"x", "y"}));
  EXPECT_EQ(grid.largest(0), 3);
  EXPECT_EQ(grid.hosts(0), 3);
  EXPECT_EQ(on_hosts({0, 1, 2}).missing("torus"), "3 hosts of one rank each make no rectangle");
  EXPECT_EQ(on_hosts({0, 0, 1}).missing("torus"), "the hosts have different numbers of ranks");
}

Topology two_hosts() {
  Topology topology;
  topology.hosts = {{"a", "", 0, {0, 1, 2, 5}}, {"b", "", 0, {3, 4, 6, 7}}};
  place_ranks(&topology);
  return topology;
}

std::string refusal(const std::string& text) {
  Topology topology = two_hosts();
  return find_levels(text, &topology).message();
}

TEST(Levels, AreHostsUnlessSaid) {
  Topology topology = two_hosts();
  ASSERT_TRUE(find_levels("", &topology).ok());
  EXPECT_EQ(topology.levels, (Levels{{"host", {0, 0, 0, 1, 1, 0, 1, 1}}}));
}

TEST(Levels, CountUnitsOfTheLevelBelow) {
  Topology topology = two_hosts();
  ASSERT_TRUE(find_levels("socket=2,host,rack=2", &topology).ok());
  EXPECT_EQ(topology.levels[0].units, (std::vector<std::int32_t>{0, 0, 1, 2, 2, 1, 3, 3}));
  EXPECT_EQ(topology.levels[2].units, std::vector<std::int32_t>(8, 0));
  EXPECT_EQ(topology::host_level(topology.levels), 1u);
  const Levels some = levels_of(topology, {1, 2, 6});
  EXPECT_EQ(some[0], (topology::Level{"socket", {0, 1, 3}}));
}

TEST(Levels, ThatCannotBeAreRefusedByName) {
  EXPECT_EQ(refusal("socket=2"), "RODA_LEVELS: \"socket=2\" names no host");
  EXPECT_EQ(refusal("host=2"),
            "RODA_LEVELS: \"host=2\" is no level: give NAME=N with a whole number from 1, and not for host");
  EXPECT_EQ(refusal("socket=x,host"),
            "RODA_LEVELS: \"socket=x\" is no level: give NAME=N with a whole number from 1, and not for host");
  EXPECT_EQ(refusal("drawer,host"),
            "RODA_LEVELS: there is no level \"drawer\": give cache, numa, package, host or NAME=N");
  EXPECT_EQ(refusal("package,host"),
            "RODA_LEVELS: the topology does not tell the ranks' package: some rank is bound to no one of them");
}

// Ranks bound to packages of a machine with two.
TEST(Levels, AreTheTopologysWhereItTells) {
  Topology topology;
  topology::Machine machine;
  machine.cpus = {0, 1, 2, 3};
  machine.packages = {{{0, 1}, "p"}, {{2, 3}, "p"}};
  topology.machines = {{"m", machine}};
  topology.hosts = {{"a", "", 0, {0, 1}}, {"b", "", 0, {2, 3}}};
  place_ranks(&topology);
  topology.bindings = {{{0}, 0}, {{2}, 0}, {{1}, 0}, {{0}, 0}};
  ASSERT_TRUE(find_levels("package,host", &topology).ok());
  EXPECT_EQ(topology.levels[0].units, (std::vector<std::int32_t>{0, 1, 2, 2}));
  ASSERT_TRUE(find_levels("auto", &topology).ok());
  EXPECT_EQ(topology.levels, (Levels{{"package", {0, 1, 2, 2}}, {"host", {0, 0, 1, 1}}}));
  EXPECT_EQ(find_levels("host,package", &topology).message(),
            "RODA_LEVELS: the ranks of one host are in several of package: name the levels from the inside out");
}

}  // namespace
}  // namespace roda::engine

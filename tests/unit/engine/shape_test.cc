// Levels, and the grids of a set's members on them.
#include "core/plan/shape.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace roda::engine {
namespace {

Shape on_hosts(const std::vector<int>& host_of, int self = 0) { return {host_levels(host_of), self}; }

TEST(Shape, OneHostHasOneAxisInUse) {
  const Shape shape = on_hosts({7, 7, 7}, 1);
  EXPECT_EQ(shape.hosts(), 1);
  EXPECT_EQ(shape.grid("hierarchical").axes_in_use, 1);
  EXPECT_EQ(shape.grid("torus").missing, "all ranks are on one host");
}

TEST(Shape, RanksOfHostsMayAlternate) {
  const Shape shape = on_hosts({4, 9, 4, 9}, 3);
  const GridFacts& facts = shape.grid("hierarchical");
  EXPECT_EQ(facts.grid.places[3], (std::vector<std::int32_t>{1, 1}));
  EXPECT_EQ(facts.axes[0].hosts, 1);
  EXPECT_EQ(facts.axes[1].hosts, 2);
  EXPECT_TRUE(facts.is_even);
}

TEST(Shape, OfUnevenHostsKnowsEveryGroup) {
  const GridFacts facts = on_hosts({0, 0, 0, 1, 2, 2}, 4).grid("hierarchical");
  EXPECT_FALSE(facts.is_even);
  EXPECT_EQ(facts.axes[0].smallest, 1);
  EXPECT_EQ(facts.axes[0].largest, 3);
  EXPECT_EQ(facts.axes[0].sizes, (std::vector<int>{2, 3}));
}

TEST(Shape, EqualOnesHashEqually) {
  EXPECT_EQ(on_hosts({0, 1}, 0).hash(), on_hosts({0, 1}, 1).hash());
  EXPECT_NE(on_hosts({0, 1}).hash(), on_hosts({0, 0}).hash());
}

TEST(Shape, TorusOfHostsWithOneRankEachIsARectangle) {
  const GridFacts facts = on_hosts({0, 1, 2, 3, 4, 5}).grid("torus");
  EXPECT_EQ(facts.grid.axes, (std::vector<std::string>{"x", "y"}));
  EXPECT_EQ(facts.axes[0].largest, 3);
  EXPECT_EQ(on_hosts({0, 1, 2}).grid("torus").missing, "3 hosts of one rank each make no rectangle");
  EXPECT_EQ(on_hosts({0, 0, 1}).grid("torus").missing, "the hosts have different numbers of ranks");
}

topology::Cluster two_hosts() {
  topology::Cluster cluster;
  cluster.hosts = {{"a", "", 0, {0, 1, 2, 5}}, {"b", "", 0, {3, 4, 6, 7}}};
  return cluster;
}

std::string refusal(const std::string& text) {
  Levels levels;
  return find_levels(text, two_hosts(), &levels).message();
}

TEST(Levels, AreHostsUnlessSaid) {
  Levels levels;
  ASSERT_TRUE(find_levels("", two_hosts(), &levels).ok());
  EXPECT_EQ(levels.names, (std::vector<std::string>{"host"}));
  EXPECT_EQ(levels.units[0], (std::vector<std::int32_t>{0, 0, 0, 1, 1, 0, 1, 1}));
}

TEST(Levels, CountUnitsOfTheLevelBelow) {
  Levels levels;
  ASSERT_TRUE(find_levels("socket=2,host,rack=2", two_hosts(), &levels).ok());
  EXPECT_EQ(levels.units[0], (std::vector<std::int32_t>{0, 0, 1, 2, 2, 1, 3, 3}));
  EXPECT_EQ(levels.units[2], std::vector<std::int32_t>(8, 0));
  EXPECT_EQ(levels.host, 1u);
  const Levels some = subset(levels, {1, 2, 6});
  EXPECT_EQ(some.units[0], (std::vector<std::int32_t>{0, 1, 3}));
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
  topology::Cluster cluster;
  topology::Machine machine;
  machine.cpus = {0, 1, 2, 3};
  machine.packages = {{{0, 1}, "p"}, {{2, 3}, "p"}};
  cluster.machines = {{"m", machine}};
  cluster.hosts = {{"a", "", 0, {0, 1}}, {"b", "", 0, {2, 3}}};
  cluster.bindings = {{{0}, 0}, {{2}, 0}, {{1}, 0}, {{0}, 0}};
  Levels levels;
  ASSERT_TRUE(find_levels("package,host", cluster, &levels).ok());
  EXPECT_EQ(levels.units[0], (std::vector<std::int32_t>{0, 1, 2, 2}));
  ASSERT_TRUE(find_levels("auto", cluster, &levels).ok());
  EXPECT_EQ(levels.names, (std::vector<std::string>{"package", "host"}));
  EXPECT_EQ(find_levels("host,package", cluster, &levels).message(),
            "RODA_LEVELS: the ranks of one host are in several of package: name the levels from the inside out");
}

}  // namespace
}  // namespace roda::engine

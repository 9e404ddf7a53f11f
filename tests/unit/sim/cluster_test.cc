// Descriptions that are wrong, and what lies between two ranks.
#include "tools/sim/model/cluster.h"

#include <gtest/gtest.h>

#include "tests/unit/sim/scenarios.h"

namespace roda::sim {
namespace {

std::vector<Link> route(const Routes& routes, int a, int b) {
  std::vector<Link> links;
  routes.route(a, b, &links);
  return links;
}

TEST(Cluster, WrongFieldsAreNamed) {
  Cluster cluster = racks_of(4, 8);
  EXPECT_FALSE(wrong_with(cluster));
  cluster.levels[1].GBps = 0;
  EXPECT_EQ(wrong_with(cluster), "level rack: bandwidths must be positive");
  cluster = racks_of(4, 8);
  cluster.levels[0].latency_us = 2e6;
  EXPECT_EQ(wrong_with(cluster), "level host: times must be from 0 to 1 s");
  cluster = racks_of(4, 8);
  cluster.levels[1].members = 0;
  EXPECT_EQ(wrong_with(cluster), "level rack: members must be at least 1");
  cluster.levels.clear();
  EXPECT_EQ(wrong_with(cluster), "a cluster has at least one level");
  cluster = hosts_of(2);
  cluster.placement = {2, 3};
  EXPECT_EQ(wrong_with(cluster), "placement: 3 ranks where 2 have room");
  cluster.placement = {2, 1};
  EXPECT_EQ(why_no_room(cluster, 4), "the placement is of 3 ranks, not 4");
  cluster.placement.clear();
  cluster.levels[1].members = 3;
  EXPECT_EQ(why_no_room(cluster, 7), "cluster hosts has room for 6 ranks, not 7");
}

TEST(Routes, PlacesRanksBlockwise) {
  const Cluster cluster = racks_of(2, 3);
  const Topology topology = lay_out(cluster, 14);
  const Routes routes(cluster, topology);
  EXPECT_EQ(routes.unit(0, 5), 1);
  EXPECT_EQ(routes.unit(1, 5), 0);
  EXPECT_EQ(routes.unit(1, 6), 1);
  EXPECT_EQ(routes.meeting(0, 2), 0u);
  EXPECT_EQ(routes.meeting(0, 3), 1u);
  EXPECT_EQ(routes.meeting(0, 6), 2u);
}

TEST(Routes, PlacesRanksAsGiven) {
  Cluster cluster = hosts_of(4);
  cluster.placement = {1, 4, 2};
  const Topology topology = lay_out(cluster, 7);
  const Routes routes(cluster, topology);
  EXPECT_EQ(routes.unit(0, 0), 0);
  EXPECT_EQ(routes.unit(0, 4), 1);
  EXPECT_EQ(routes.unit(0, 5), 2);
}

TEST(Routes, RoutesGoUpAndDown) {
  const Cluster cluster = racks_of(2, 2);
  const Topology topology = lay_out(cluster, 8);
  const Routes routes(cluster, topology);
  EXPECT_EQ(route(routes, 0, 1), (std::vector<Link>{{0, LinkKind::kUp, 0, 0}, {0, LinkKind::kDown, 1, 0}}));
  const std::vector<Link> far = {{0, LinkKind::kUp, 1, 0},   {1, LinkKind::kUp, 0, 0},   {2, LinkKind::kUp, 0, 0},
                                 {0, LinkKind::kDown, 6, 0}, {1, LinkKind::kDown, 3, 0}, {2, LinkKind::kDown, 1, 0}};
  EXPECT_EQ(route(routes, 1, 6), far);
}

TEST(Routes, PortsAreSharedByLocalNumber) {
  Cluster cluster = hosts_of(4);
  cluster.levels[1].ports = 2;
  const Topology topology = lay_out(cluster, 8);
  const Routes routes(cluster, topology);
  EXPECT_EQ(route(routes, 2, 5)[1], (Link{1, LinkKind::kUp, 0, 0}));
  EXPECT_EQ(route(routes, 3, 5)[1], (Link{1, LinkKind::kUp, 0, 1}));
  EXPECT_EQ(route(routes, 3, 5)[3], (Link{1, LinkKind::kDown, 1, 1}));
}

TEST(Routes, HalfDuplexIsOneLinkAndATotalCountsOnce) {
  Cluster cluster = one_switch();
  cluster.levels[0].full_duplex = false;
  cluster.levels[0].total_GBps = 5;
  const Topology topology = lay_out(cluster, 2);
  const Routes routes(cluster, topology);
  const std::vector<Link> expected = {{0, LinkKind::kUp, 0, 0}, {0, LinkKind::kTotal, 0, 0}, {0, LinkKind::kUp, 1, 0}};
  EXPECT_EQ(route(routes, 0, 1), expected);
  EXPECT_DOUBLE_EQ(routes.capacity(expected[1]), 5e-3);
}

}  // namespace
}  // namespace roda::sim

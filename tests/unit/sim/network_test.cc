// How links are shared, against what one computes by hand. 1e-3 bytes per picosecond are 1 GB/s.
#include "tools/sim/model/network.h"

#include <gtest/gtest.h>

#include <map>

namespace roda::sim {
namespace {

constexpr Time kMicrosecond = 1000000;

std::vector<LinkClass> links(const std::vector<double>& GBps) {
  std::vector<LinkClass> made;
  for (const double rate : GBps) made.push_back({{}, rate * 1e-3, 1});
  return made;
}

// When each message left, by its tag.
std::map<int, Time> simulate(Network* network) {
  std::map<int, Time> left;
  std::vector<Departure> departures;
  network->settle(0);
  while (network->next() != Network::kNever) {
    const Time now = network->next();
    network->finish(now, &departures);
    for (const Departure& departure : departures) left[departure.message.tag] = now;
    network->settle(now);
  }
  return left;
}

TEST(Network, AMessageAloneGetsTheSlowestLink) {
  const std::vector<Hop> route = {{0, 1}, {1, 1}};
  Network network(links({4, 2}));
  network.send(network.connect(route), {2000, 0, -1});
  EXPECT_EQ(simulate(&network)[0], kMicrosecond);
}

TEST(Network, ConnectionsShareALinkAlike) {
  const std::vector<Hop> route = {{0, 1}};
  Network network(links({1}));
  network.send(network.connect(route), {1000, 0, -1});
  network.send(network.connect(route), {500, 1, -1});
  auto left = simulate(&network);
  EXPECT_EQ(left[1], kMicrosecond);          // half of the link for 500 bytes
  EXPECT_EQ(left[0], kMicrosecond * 3 / 2);  // the rest alone
}

TEST(Network, MessagesOfOneConnectionFollowEachOther) {
  const std::vector<Hop> route = {{0, 1}};
  Network network(links({1}));
  const auto connection = network.connect(route);
  network.send(connection, {1000, 0, -1});
  network.send(connection, {0, 1, -1});
  network.send(connection, {1000, 2, -1});
  auto left = simulate(&network);
  EXPECT_EQ(left[0], kMicrosecond);
  EXPECT_EQ(left[1], kMicrosecond);
  EXPECT_EQ(left[2], 2 * kMicrosecond);
}

// Link 0 (1 GB/s) is shared by a and b, link 1 (0.4) by a alone: a gets 0.4, b the 0.6 that a can't use.
TEST(Network, WhatOneCannotUseTheOtherGets) {
  const std::vector<Hop> a = {{0, 1}, {1, 1}};
  const std::vector<Hop> b = {{0, 1}};
  Network network(links({1, 0.4}));
  network.send(network.connect(a), {400, 0, -1});
  network.send(network.connect(b), {600, 1, -1});
  auto left = simulate(&network);
  EXPECT_EQ(left[0], kMicrosecond);
  EXPECT_EQ(left[1], kMicrosecond);
}

// Three links in a row, one long flow and one short on each: all get half; then the short ones are gone.
TEST(Network, ParkingLot) {
  const std::vector<Hop> all = {{0, 1}, {1, 1}, {2, 1}};
  const std::vector<Hop> each[] = {{{0, 1}}, {{1, 1}}, {{2, 1}}};
  Network network(links({1, 1, 1}));
  network.send(network.connect(all), {1500, 9, -1});
  for (int i = 0; i < 3; ++i) network.send(network.connect(each[i]), {500, i, -1});
  auto left = simulate(&network);
  EXPECT_EQ(left[0], kMicrosecond);
  EXPECT_EQ(left[2], kMicrosecond);
  EXPECT_EQ(left[9], 2 * kMicrosecond);
}

// A class of four flows over one link is four flows.
TEST(Network, AClassWeighsAsMuchAsItsMembers) {
  const std::vector<Hop> four = {{0, 4}};
  const std::vector<Hop> one = {{0, 1}};
  Network network(links({1}));
  network.send(network.connect(four), {1000, 0, -1});
  network.send(network.connect(one), {1000, 1, -1});
  auto left = simulate(&network);
  EXPECT_EQ(left[0], 5 * kMicrosecond);
  EXPECT_EQ(left[1], 5 * kMicrosecond);
}

}  // namespace
}  // namespace roda::sim

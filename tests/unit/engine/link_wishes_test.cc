// What jobs of different shapes would like to know of their links.
#include "core/engine/link_wishes.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

namespace roda::engine {
namespace {

constexpr std::uint64_t kMemory = RODA_CAP_P2P | RODA_CAP_SIGNAL | RODA_CAP_GET | RODA_CAP_MAP | RODA_CAP_SAME_HOST;

roda_transport transport(const char* name, std::uint64_t capabilities) {
  roda_transport t{};
  t.struct_size = sizeof t;
  t.name = name;
  t.capabilities = capabilities;
  return t;
}

const roda_transport kNear = transport("near", kMemory | RODA_CAP_FAULT_TOLERANT);
const roda_transport kFar = transport("far", RODA_CAP_P2P | RODA_CAP_FAULT_TOLERANT);
const roda_transport kFragile = transport("fragile", RODA_CAP_P2P);

Planner planner(std::vector<const roda_transport*> transports) {
  return {select::Table::defaults(), std::move(transports), Planner::Options()};
}

// Hosts with so many ranks each.
Topology job(const std::vector<int>& sizes) {
  Topology topology;
  topology.size = 0;
  for (std::size_t host = 0; host < sizes.size(); ++host) {
    topology.hosts.push_back({"boot", "host" + std::to_string(host), 1});
    topology.host_of.insert(topology.host_of.end(), static_cast<std::size_t>(sizes[host]), static_cast<int>(host));
    topology.size += sizes[host];
  }
  return topology;
}

// "memory near 1-2, network far 0-1"
std::string described(const std::vector<LinkWish>& wishes) {
  std::string text;
  for (const LinkWish& wish : wishes) {
    const auto& [transport, ranks] = std::pair(wish.trial.transport, wish.trial.ranks);
    text += (text.empty() ? "" : ", ") + wish.name;
    if (wish.link == nullptr) continue;
    text += std::string(" ") + (transport != nullptr ? transport->name : "nothing");
    text += " " + std::to_string(ranks[0]) + "-" + std::to_string(ranks[1]);
  }
  return text;
}

TEST(LinkWishes, AreMadeOfTheFirstRanksThatHaveTheLink) {
  const Planner p = planner({&kNear, &kFar});
  EXPECT_EQ(described(link_wishes(job({2}), p)), "memory near 0-1, loopback far 0-1, processor");
  EXPECT_EQ(described(link_wishes(job({1, 2}), p)), "memory near 1-2, loopback far 1-2, network far 0-1, processor");
  EXPECT_EQ(described(link_wishes(job({3, 1, 2}), p)), "memory near 0-1, loopback far 0-1, network far 0-3, processor");
  EXPECT_EQ(described(link_wishes(job({1, 1}), p)), "network far 0-1, processor");
}

TEST(LinkWishes, FollowWhatMayBeUsed) {
  EXPECT_EQ(described(link_wishes(job({2}), planner({&kNear}))), "memory near 0-1, processor");
  EXPECT_EQ(described(link_wishes(job({2}), planner({&kFar}))), "loopback far 0-1, processor");
  EXPECT_EQ(described(link_wishes(job({1, 1}), planner({&kNear}))), "network nothing 0-1, processor");
}

// A trial over it might never end.
TEST(LinkWishes, StayWishesWhereTheTransportCannotBeAbandoned) {
  EXPECT_EQ(described(link_wishes(job({2}), planner({&kFragile}))), "loopback nothing 0-1, processor");
}

TEST(LinkWishes, AreKeptUnderHostsAndTransports) {
  const Planner p = planner({&kNear, &kFar});
  const auto key = [](const std::vector<LinkWish>& wishes, const std::string& name) {
    return std::find_if(wishes.begin(), wishes.end(), [&](const auto& w) { return w.name == name; })->key;
  };
  Topology other = job({2, 2});
  EXPECT_EQ(key(link_wishes(job({2, 2}), p), "network"), key(link_wishes(job({1, 4}), p), "network"));
  EXPECT_EQ(key(link_wishes(job({2}), p), "memory"), key(link_wishes(job({2, 2}), p), "memory"));
  EXPECT_EQ(key(link_wishes(job({2}), p), "memory"), key(link_wishes(job({2}).hosts.front(), p), "memory"));
  EXPECT_NE(key(link_wishes(job({2}), p), "loopback"), key(link_wishes(job({2}), planner({&kFragile})), "loopback"));
  other.hosts[1].boot_id = "another boot";
  EXPECT_NE(key(link_wishes(job({2, 2}), p), "network"), key(link_wishes(other, p), "network"));
}

TEST(LinkWishes, TakeWholeFiguresOnly) {
  Links links;
  const LinkWish wish = link_wishes(job({1, 1}), planner({&kFar})).front();
  EXPECT_FALSE(apply(wish, {{"latency_us", 1}, {"GBps", 2}}, &links));
  EXPECT_EQ(links, Links());
  EXPECT_TRUE(apply(wish, {{"latency_us", 1}, {"overhead_us", 0.5}, {"GBps", 2}}, &links));
  EXPECT_EQ(links.network, (Link{1, 0.5, 2}));
  EXPECT_EQ(figures_of(wish, links), (Figures{{"latency_us", 1}, {"overhead_us", 0.5}, {"GBps", 2}}));
}

}  // namespace
}  // namespace roda::engine

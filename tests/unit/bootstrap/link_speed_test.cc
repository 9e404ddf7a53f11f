// What ranks measure over loopback, as if their hosts were joined by it.
#include "core/bootstrap/link_speed.h"

#include <gtest/gtest.h>

#include <thread>
#include <vector>

namespace roda {
namespace {

// Hosts with so many ranks each.
Topology hosts_of(const std::vector<int>& sizes) {
  Topology topology;
  for (const int size : sizes) {
    topology::Host& host = topology.hosts.emplace_back();
    for (int place = 0; place < size; ++place) {
      host.ranks.push_back(topology.size());
      topology.numbers.push_back({static_cast<int>(topology.hosts.size()) - 1, place, 0});
    }
  }
  return topology;
}

// The link that all ranks agree on. `odd`: a rank that can't listen where it is told to.
topology::Link measured(const std::vector<int>& sizes, int odd = -1) {
  const Topology topology = hosts_of(sizes);
  LocalStore store;
  std::vector<topology::Link> links(static_cast<std::size_t>(topology.size()));
  std::vector<std::thread> threads;
  for (int rank = 0; rank < topology.size(); ++rank) {
    threads.emplace_back([&, rank] {
      LinkOptions options{.key = "link", .address = rank == odd ? "192.0.2.1" : "127.0.0.1", .cores = 8 - rank};
      options.deadline = Store::Clock::now() + std::chrono::seconds(20);
      const Status status = measure_link(store, topology, rank, options, &links[static_cast<std::size_t>(rank)]);
      EXPECT_TRUE(status.ok()) << status.message();
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const topology::Link& link : links) {
    EXPECT_EQ(link.bytes_per_second, links.front().bytes_per_second);
    EXPECT_EQ(link.cores, links.front().cores);
    EXPECT_EQ(link.source, links.front().source);
  }
  return links.front();
}

TEST(LinkSpeed, IsTheSameOnAllRanks) {
  for (const std::vector<int>& sizes : {std::vector{1, 1}, std::vector{2, 2}, std::vector{1, 2, 3}}) {
    const topology::Link link = measured(sizes);
    EXPECT_GT(link.bytes_per_second, 1e6);
    EXPECT_EQ(link.source, "measured");
    EXPECT_EQ(link.cores, sizes.front());  // no more than a host has ranks
  }
}

TEST(LinkSpeed, IsNotKnownWhereARankCantListen) {
  const topology::Link link = measured({2, 2}, 2);
  EXPECT_EQ(link.bytes_per_second, 0);
  EXPECT_EQ(link.source, "rank 0: some rank could not listen");
}

TEST(LinkSpeed, SaysWhatFormatsWin) {
  const topology::Link slow{125e6, 2, "measured"}, fast{25e9, 2, "measured"};
  EXPECT_EQ(topology::no_gain(slow, RODA_WIRE_BF16, 1 << 20), "");
  EXPECT_EQ(topology::no_gain(slow, RODA_WIRE_BF16, 1 << 10),
            "below 64 KiB latency takes the time, and no format saves any");
  EXPECT_EQ(topology::no_gain(fast, RODA_WIRE_BF16, 1 << 20),
            "the link makes 200 Gbit/s (measured), and bf16 wins below 47.8");
  EXPECT_EQ(topology::no_gain({0, 1, "rank 1: it took too long"}, RODA_WIRE_BF16, 1 << 20),
            "the link's speed is not known (rank 1: it took too long), and bf16 wins below 23.9");
  EXPECT_LT(topology::break_even(RODA_WIRE_BF16, 1), topology::break_even(RODA_WIRE_INT8, 1));
  EXPECT_LT(topology::break_even(RODA_WIRE_INT8, 1), topology::break_even(RODA_WIRE_INT4, 1));
}

}  // namespace
}  // namespace roda

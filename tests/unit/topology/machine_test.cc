#include "algorithms/topology/machine.h"

#include <gtest/gtest.h>

namespace roda::topology {
namespace {

PciPlace place(const std::string& address, std::vector<std::string> bridges, int node = 0) {
  return {address, std::move(bridges), node};
}

TEST(PciDistance, FollowsTheBridges) {
  const std::vector<std::string> above{"pci0000:10", "0000:10:01.0", "0000:11:00.0"};
  auto behind = [&](const std::string& port) {
    auto bridges = above;
    bridges.push_back(port);
    return bridges;
  };
  const PciPlace gpu = place("0000:13:00.0", behind("0000:12:00.0"));
  EXPECT_EQ(distance(gpu, gpu), PciDistance::kSameDevice);
  EXPECT_EQ(distance(gpu, place("0000:13:00.1", behind("0000:12:00.0"))), PciDistance::kSameDevice);
  EXPECT_EQ(distance(gpu, place("0000:14:00.0", behind("0000:12:01.0"))), PciDistance::kSameSwitch);
  // A second switch below the first.
  auto deeper = behind("0000:12:02.0");
  deeper.insert(deeper.end(), {"0000:15:00.0", "0000:16:00.0"});
  EXPECT_EQ(distance(gpu, place("0000:17:00.0", deeper)), PciDistance::kSwitches);
  EXPECT_EQ(distance(gpu, place("0000:20:00.0", {"pci0000:10", "0000:10:02.0"})), PciDistance::kHostBridge);
  EXPECT_EQ(distance(gpu, place("0000:30:00.0", {"pci0000:2f", "0000:2f:01.0"})), PciDistance::kNumaNode);
  EXPECT_EQ(distance(gpu, place("0000:90:00.0", {"pci0000:8f", "0000:8f:01.0"}, 1)), PciDistance::kSystem);
  EXPECT_EQ(distance(gpu, PciPlace()), PciDistance::kSystem);
  EXPECT_EQ(distance(place("0000:01:00.0", {"pci0000:00"}, -1), place("0000:41:00.0", {"pci0000:40"}, -1)),
            PciDistance::kSystem);
}

TEST(Machine, SharedCacheIsTheOneOfSeveralCores) {
  Machine machine;
  machine.cpus = {0, 1, 2, 3};
  machine.cores = {{0, 2}, {1, 3}};
  machine.caches = {{1, 32, {{0, 2}, {1, 3}}}, {2, 1024, {{0, 2}, {1, 3}}}};
  EXPECT_EQ(shared_cache(machine), nullptr);
  machine.caches.push_back({3, 8192, {{0, 1, 2, 3}}});
  ASSERT_NE(shared_cache(machine), nullptr);
  EXPECT_EQ(shared_cache(machine)->level, 3);
}

TEST(Machine, BandwidthOfNvlinkVersions) {
  EXPECT_EQ(nvlink_gbytes(4), 25);
  EXPECT_EQ(nvlink_gbytes(99), 0);
}

TEST(Machine, NearestNetworkDeviceIsActiveNearAndNotTaken) {
  Machine machine;
  machine.gpus.resize(1);
  machine.gpus[0].pci = place("0000:13:00.0", {"pci0000:10", "0000:10:01.0"});
  EXPECT_EQ(nearest_rdma_device(machine, 0), -1);
  const std::vector<RdmaPort> active{{1, "InfiniBand", 400000, true}};
  machine.rdma_devices = {
      {"far", active, place("0000:90:00.0", {"pci0000:8f"}, 1)},
      {"down", {{1, "InfiniBand", 0, false}}, place("0000:13:00.1", {"pci0000:10", "0000:10:01.0"})},
      {"near", active, place("0000:20:00.0", {"pci0000:10", "0000:10:02.0"})},
      {"near too", active, place("0000:21:00.0", {"pci0000:10", "0000:10:03.0"})}};
  EXPECT_EQ(nearest_rdma_device(machine, 0), 2);
  EXPECT_EQ(nearest_rdma_device(machine, 0, {0, 0, 1, 0}), 3);
}

}  // namespace
}  // namespace roda::topology

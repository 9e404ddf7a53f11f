// The topologies that are installed with the package: each is well-formed, says where its facts are from, and has the
// shape that its name promises.
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>

#include "core/topology/json.h"
#include "core/topology/lay_out.h"

namespace roda::topology {
namespace {

Machine shipped(const std::string& name) {
  Topology topology;
  const Status status = load_file(std::string(std::getenv("RODA_TEST_TOPOLOGIES")) + "/" + name + ".json", &topology);
  EXPECT_TRUE(status.ok()) << status.message();
  if (topology.machines.size() != 1) {
    ADD_FAILURE() << name;
    return {};
  }
  EXPECT_EQ(topology.machines[0].name, name);
  return topology.machines[0].machine;
}

TEST(Shipped, EveryFileIsSoundAndCitesItsSources) {
  int files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(std::getenv("RODA_TEST_TOPOLOGIES"))) {
    if (entry.path().extension() != ".json") continue;
    const Machine machine = shipped(entry.path().stem().string());
    EXPECT_FALSE(machine.sources.empty()) << entry.path();
    CpuSet in_cores;
    for (const CpuSet& core : machine.cores) in_cores.insert(in_cores.end(), core.begin(), core.end());
    std::sort(in_cores.begin(), in_cores.end());
    EXPECT_EQ(in_cores, machine.cpus) << entry.path();
    EXPECT_FALSE(print({{{"m", machine}}, {}, {}, {}, {}}).empty());
    ++files;
  }
  EXPECT_EQ(files, 5);
}

TEST(Shipped, DgxH100) {
  const Machine machine = shipped("dgx-h100");
  EXPECT_EQ(natural_ranks(machine), 8);
  EXPECT_EQ(machine.cores.size(), 112u);
  for (const Gpu& gpu : machine.gpus) EXPECT_EQ(gpu.switch_links, 18);
  std::vector<int> devices;
  for (int gpu = 0; gpu < 8; ++gpu) {
    devices.push_back(nearest_rdma_device(machine, gpu));
    EXPECT_EQ(distance(machine.gpus[static_cast<std::size_t>(gpu)].pci,
                       machine.rdma_devices[static_cast<std::size_t>(devices.back())].pci),
              PciDistance::kSameSwitch);
  }
  EXPECT_EQ(devices, (std::vector<int>{0, 1, 2, 3, 4, 5, 6, 7}));
  EXPECT_EQ(distance(machine.gpus[0].pci, machine.gpus[1].pci), PciDistance::kNumaNode);
  EXPECT_EQ(distance(machine.gpus[0].pci, machine.gpus[4].pci), PciDistance::kSystem);
}

TEST(Shipped, Others) {
  EXPECT_EQ(shipped("dual-socket-cpu").packages.size(), 2u);
  EXPECT_EQ(natural_ranks(shipped("dual-socket-cpu")), 56);
  EXPECT_EQ(natural_ranks(shipped("workstation-4gpu")), 4);
  for (const Gpu& gpu : shipped("workstation-4gpu").gpus) EXPECT_TRUE(gpu.switch_links == 0 && gpu.peer_links.empty());
  EXPECT_EQ(natural_ranks(shipped("laptop")), 4);
  EXPECT_EQ(natural_ranks(shipped("vm-2-cores")), 2);
}

}  // namespace
}  // namespace roda::topology

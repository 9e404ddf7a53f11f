// Discovery from made-up kernel files.
#include <gtest/gtest.h>

#include "core/topology/discover_machine.h"
#include "core/topology/json.h"
#include "core/topology/kernel_files.h"
#include "tests/unit/folder.h"

namespace roda::topology {
namespace {

constexpr const char* kSwitchPath = "/sys/devices/pci0000:15/0000:15:01.0/0000:16:00.0";

// Two packages of one core with two threads each; CPU 4 is offline.
void write_cpus(const Folder& folder) {
  const std::string cpus = "/sys/devices/system/cpu";
  folder.write(cpus + "/online", "0-3");
  for (int cpu = 0; cpu < 4; ++cpu) {
    const std::string one = cpus + "/cpu" + std::to_string(cpu);
    const std::string siblings = cpu % 2 == 0 ? "0,2,4" : "1,3";
    folder.write(one + "/topology/thread_siblings_list", siblings);
    folder.write(one + "/topology/core_siblings_list", siblings);
    const struct {
      const char* type;
      const char* level;
      const char* size;
      const char* shared;
    } kCaches[] = {{"Data", "1", "48K", nullptr}, {"Instruction", "1", "32K", nullptr}, {"Unified", "3", "8M", "0-4"}};
    for (int i = 0; i < 3; ++i) {
      const std::string index = one + "/cache/index" + std::to_string(i);
      folder.write(index + "/type", kCaches[i].type);
      folder.write(index + "/level", kCaches[i].level);
      folder.write(index + "/size", kCaches[i].size);
      folder.write(index + "/shared_cpu_list", kCaches[i].shared != nullptr ? kCaches[i].shared : siblings);
    }
  }
  for (int node = 0; node < 2; ++node) {
    const std::string one = "/sys/devices/system/node/node" + std::to_string(node);
    folder.write(one + "/cpulist", node == 0 ? "0,2,4" : "1,3");
    folder.write(one + "/meminfo", "Node 0 MemTotal:       16482196 kB");
    folder.write(one + "/distance", node == 0 ? "10 21" : "21 10");
  }
  folder.write("/sys/devices/system/node/possible", "0-1");
}

TEST(CpusInFiles, AreRead) {
  const Folder folder;
  write_cpus(folder);
  const Machine machine = discover_machine({false, folder.path(), "", ""});
  EXPECT_EQ(machine.cpus, (CpuSet{0, 1, 2, 3}));
  EXPECT_EQ(machine.cores, (std::vector<CpuSet>{{0, 2}, {1, 3}}));
  ASSERT_EQ(machine.packages.size(), 2u);
  EXPECT_EQ(machine.packages[1].cpus, (CpuSet{1, 3}));
  ASSERT_EQ(machine.numa_nodes.size(), 2u);
  EXPECT_EQ(machine.numa_nodes[1], (NumaNode{1, {1, 3}, 16, {21, 10}}));
  ASSERT_EQ(machine.caches.size(), 2u);
  EXPECT_EQ(machine.caches[0], (CacheLevel{1, 48, {{0, 2}, {1, 3}}}));
  EXPECT_EQ(machine.caches[1], (CacheLevel{3, 8192, {{0, 1, 2, 3}}}));
  EXPECT_TRUE(machine.absent.empty());
}

TEST(CpusInFiles, ModelsOfPackagesForWhoWantsDetails) {
  const Folder folder;
  write_cpus(folder);
  folder.write("/proc/cpuinfo",
               "processor\t: 0\nmodel name\t: Lightning 9\n\nprocessor\t: 3\nmodel name\t: Thunder: 2\nflags\n");
  EXPECT_EQ(discover_machine({false, folder.path(), "", ""}).packages[0].model, "");
  const Machine machine = discover_machine({true, folder.path(), "", ""});
  EXPECT_EQ(machine.packages[0].model, "Lightning 9");
  EXPECT_EQ(machine.packages[1].model, "Thunder: 2");
}

TEST(CpusInFiles, WhatCannotBeReadIsAbsentWithTheReason) {
  const Folder folder;
  const Machine machine = discover_machine({true, folder.path(), "", ""});
  EXPECT_TRUE(machine.cpus.empty());
  ASSERT_TRUE(machine.absent.contains("cpus"));
  EXPECT_NE(machine.absent.at("cpus").find("/sys/devices/system/cpu/online can't be read"), std::string::npos);
}

void write_interface(const Folder& folder, const std::string& name, const char* state, const char* speed) {
  folder.write("/sys/class/net/" + name + "/operstate", state);
  folder.write("/sys/class/net/" + name + "/speed", speed);
}

TEST(Nics, PhysicalOnesWithSpeedAndPlace) {
  const Folder folder;
  write_interface(folder, "lo", "unknown", "");
  write_interface(folder, "eth1", "up", "100000");
  write_interface(folder, "eth0", "down", "-1");
  write_interface(folder, "veth9", "up", "10000");
  folder.write("/sys/class/net/bonding_masters", "");
  folder.link("/sys/class/net/eth1/device", std::string(kSwitchPath) + "/0000:17:00.0/0000:18:00.0");
  folder.write(std::string(kSwitchPath) + "/0000:17:00.0/0000:18:00.0/numa_node", "1");
  folder.link("/sys/class/net/eth0/device", "/sys/devices/pci0000:00/0000:00:03.0/virtio2");
  folder.write("/sys/devices/pci0000:00/0000:00:03.0/numa_node", "-1");
  Machine machine;
  find_nics(KernelFiles(folder.path()), &machine);
  ASSERT_EQ(machine.nics.size(), 2u);
  EXPECT_EQ(machine.nics[0], (Nic{"eth0", 0, false, true, {"0000:00:03.0", {"pci0000:00"}, -1}}));
  EXPECT_EQ(machine.nics[1],
            (Nic{"eth1",
                 100000,
                 true,
                 true,
                 {"0000:18:00.0", {"pci0000:15", "0000:15:01.0", "0000:16:00.0", "0000:17:00.0"}, 1}}));
}

TEST(Nics, VirtualOnesWhereThereIsNothingElse) {
  const Folder folder;
  write_interface(folder, "lo", "unknown", "");
  write_interface(folder, "eth0", "up", "10000");
  write_interface(folder, "tunl0", "down", "");
  Machine machine;
  find_nics(KernelFiles(folder.path()), &machine);
  ASSERT_EQ(machine.nics.size(), 1u);
  EXPECT_EQ(machine.nics[0], (Nic{"eth0", 10000, true, false, {}}));
}

TEST(Nics, TooManyAreCut) {
  const Folder folder;
  for (int i = 0; i < 70; ++i) write_interface(folder, "v" + std::to_string(100 + i), "up", "");
  Machine machine;
  find_nics(KernelFiles(folder.path()), &machine);
  EXPECT_EQ(machine.nics.size(), kMostDevices);
  EXPECT_EQ(machine.absent.at("nics"), "6 more; 64 are kept");
}

TEST(RdmaDevices, PortsAndRates) {
  const Folder folder;
  const std::string device = "/sys/class/infiniband/mlx5_0";
  folder.write(device + "/ports/1/state", "4: ACTIVE");
  folder.write(device + "/ports/1/rate", "400 Gb/sec (4X NDR)");
  folder.write(device + "/ports/1/link_layer", "InfiniBand");
  folder.write(device + "/ports/2/state", "1: DOWN");
  folder.write(device + "/ports/2/rate", "2.5 Gb/sec (1X SDR)");
  folder.write(device + "/ports/2/link_layer", "Ethernet");
  folder.link(device + "/device", std::string(kSwitchPath) + "/0000:17:00.0/0000:18:00.0");
  Machine machine;
  find_rdma_devices(KernelFiles(folder.path()), &machine);
  ASSERT_EQ(machine.rdma_devices.size(), 1u);
  EXPECT_EQ(machine.rdma_devices[0].ports,
            (std::vector<RdmaPort>{{1, "InfiniBand", 400000, true}, {2, "Ethernet", 2500, false}}));
  EXPECT_EQ(machine.rdma_devices[0].pci.address, "0000:18:00.0");
}

void write_pci(const Folder& folder, const std::string& path, const char* kind, const char* vendor) {
  const std::string address = path.substr(path.rfind('/') + 1);
  folder.link("/sys/bus/pci/devices/" + address, path);
  folder.write(path + "/class", kind);
  folder.write(path + "/vendor", vendor);
  folder.write(path + "/device", "0x2330");
}

TEST(Gpus, OfTheComputingKindWithTheDriversModel) {
  const Folder folder;
  const std::string gpu = std::string(kSwitchPath) + "/0000:17:01.0/0000:1b:00.0";
  write_pci(folder, gpu, "0x030200", "0x10de");
  write_pci(folder, "/sys/devices/pci0000:40/0000:40:01.0/0000:41:00.0", "0x120000", "0x1002");
  write_pci(folder, "/sys/devices/pci0000:00/0000:00:02.0", "0x030000", "0x8086");
  write_pci(folder, "/sys/devices/pci0000:00/0000:00:1f.0", "0x060100", "0x10de");
  folder.write("/proc/driver/nvidia/gpus/0000:1b:00.0/information", "Model: \t\t NVIDIA H100 80GB HBM3");
  Machine machine;
  find_gpus(KernelFiles(folder.path()), &machine);
  ASSERT_EQ(machine.gpus.size(), 2u);
  EXPECT_EQ(machine.gpus[0].model, "NVIDIA H100 80GB HBM3");
  EXPECT_EQ(machine.gpus[0].pci.address, "0000:1b:00.0");
  EXPECT_EQ(machine.gpus[0].pci.bridges.size(), 4u);
  EXPECT_EQ(machine.gpus[1].model, "PCI 0x1002:0x2330");
  EXPECT_TRUE(machine.absent.contains("gpus/links"));
}

TEST(Binding, IsTheBudgetsPartOfTheMachine) {
  Machine machine;
  machine.cpus = {0, 1, 63, 64, 130, 5000};
  CoreBudget budget;
  EXPECT_EQ(binding(machine, budget), Binding());
  budget.cores.fill(~std::uint64_t{0});
  budget.quota = 1.5;
  EXPECT_EQ(binding(machine, budget), (Binding{{0, 1, 63, 64, 130}, 1.5}));
  budget.cores = {2, 1};
  EXPECT_EQ(binding(machine, budget).cpus, (CpuSet{1, 64}));
}

TEST(Discovery, OfThisMachineFindsItsCpus) {
  const Machine machine = discover_machine();
  EXPECT_FALSE(machine.cpus.empty());
  EXPECT_FALSE(binding(machine, core_budget()).cpus.empty());
  // Asking libraries too changes nothing of what the kernel's files tell.
  DiscoverOptions options;
  options.thorough = true;
  Machine thorough = discover_machine(options);
  for (Package& package : thorough.packages) package.model.clear();
  thorough.gpus = machine.gpus;
  thorough.absent = machine.absent;
  EXPECT_EQ(difference(machine, thorough, "in the kernel's files", "by libraries"), "");
}

}  // namespace
}  // namespace roda::topology

// Machines that hwloc describes without being on them: synthetic ones, and an XML file named by the build.
#include <gtest/gtest.h>

#include <cstdlib>

#include "core/topology/discover_machine.h"
#include "core/topology/kernel_files.h"

namespace roda::topology {
namespace {

// A variable of hwloc's, for one test.
class Variable {
 public:
  Variable(const char* name, const std::string& value) : name_(name) { ::setenv(name, value.c_str(), 1); }
  ~Variable() { ::unsetenv(name_); }
  Variable(const Variable&) = delete;
  Variable& operator=(const Variable&) = delete;

 private:
  const char* name_;
};

class HwlocTest : public testing::Test {
 protected:
  void SetUp() override {
    Machine machine;
    bool is_this_machine = true;
    const Status status = ask_hwloc("libhwloc.so.15", &machine, &is_this_machine);
    if (!status.ok()) GTEST_SKIP() << status.message();
  }
};

TEST_F(HwlocTest, ASyntheticMachineOfTwoPackages) {
  const Variable variable("HWLOC_SYNTHETIC", "pack:2 numa:2 l3:2(size=16777216) l2:2(size=1048576) core:1 pu:2");
  const Machine machine = discover_machine();
  EXPECT_EQ(machine.cpus.size(), 32u);
  EXPECT_EQ(machine.cores.size(), 16u);
  EXPECT_EQ(machine.packages.size(), 2u);
  EXPECT_EQ(machine.numa_nodes.size(), 4u);
  EXPECT_EQ(machine.numa_nodes[3].cpus, (CpuSet{24, 25, 26, 27, 28, 29, 30, 31}));
  ASSERT_EQ(machine.caches.size(), 2u);
  EXPECT_EQ(machine.caches[0].level, 2);
  EXPECT_EQ(machine.caches[0].kib, 1024);
  EXPECT_EQ(machine.caches[0].shared_by.size(), 16u);
  EXPECT_EQ(machine.caches[1].kib, 16384);
  EXPECT_EQ(machine.caches[1].shared_by.size(), 8u);
  ASSERT_NE(shared_cache(machine), nullptr);
  EXPECT_EQ(shared_cache(machine)->level, 3);
  // Nothing of the machine that the test runs on is mixed in.
  EXPECT_TRUE(machine.nics.empty());
}

TEST_F(HwlocTest, ADescriptionInXmlBringsItsDevices) {
  const char* file = std::getenv("RODA_TEST_HWLOC_XML");
  ASSERT_NE(file, nullptr);
  const Variable variable("HWLOC_XMLFILE", file);
  const Machine machine = discover_machine();
  EXPECT_EQ(machine.model, "Test Server");
  EXPECT_EQ(machine.packages[0].model, "Test CPU");
  EXPECT_EQ(machine.numa_nodes[1], (NumaNode{1, {2, 3}, 16, {21, 10}}));
  ASSERT_EQ(machine.gpus.size(), 1u);
  EXPECT_EQ(machine.gpus[0].model, "NVIDIA H100 80GB HBM3");
  EXPECT_EQ(machine.gpus[0].pci, (PciPlace{"0000:16:00.0", {"pci0000:15", "0000:15:01.0"}, 0}));
  ASSERT_EQ(machine.rdma_devices.size(), 1u);
  EXPECT_EQ(machine.rdma_devices[0].name, "mlx5_0");
  EXPECT_TRUE(machine.rdma_devices[0].ports.at(0).is_active);
  ASSERT_EQ(machine.nics.size(), 1u);
  EXPECT_EQ(machine.nics[0].name, "ib0");
  EXPECT_EQ(distance(machine.gpus[0].pci, machine.rdma_devices[0].pci), PciDistance::kSameSwitch);
  EXPECT_EQ(nearest_rdma_device(machine, 0), 0);
}

TEST(Hwloc, ALibraryThatIsNotThereIsNoFailure) {
  Machine machine;
  bool is_this_machine = true;
  const Status status = ask_hwloc("libno-such-hwloc.so", &machine, &is_this_machine);
  EXPECT_EQ(status.code(), RODA_ERR_UNAVAILABLE);
  DiscoverOptions options;
  options.thorough = true;
  options.hwloc = "libno-such-hwloc.so";
  EXPECT_FALSE(discover_machine(options).cpus.empty());
  options.hwloc = "libc.so.6";
  EXPECT_FALSE(discover_machine(options).cpus.empty());
}

}  // namespace
}  // namespace roda::topology

// NVLinks and peers, against stand-ins for the vendor's libraries (named in the environment by the build).
#include "core/topology/kernel_files.h"

#include <gtest/gtest.h>

#include <cstdlib>

namespace roda::topology {
namespace {

std::string library(const char* name) {
  const char* path = std::getenv(name);
  return path != nullptr ? path : "";
}
std::string nvml() { return library("RODA_TEST_NVML_STAND_IN"); }
std::string cuda() { return library("RODA_TEST_CUDA_LIBRARY"); }

// Four on the bus; the driver shows three of them.
Machine on_the_bus() {
  Machine machine;
  for (const char* bus : {"1b", "43", "52", "df"}) {
    Gpu gpu;
    gpu.model = "PCI 0x10de:0x2330";
    gpu.pci = {std::string("0000:") + bus + ":00.0", {std::string("pci0000:") + bus}, 0};
    machine.gpus.push_back(gpu);
  }
  machine.absent["gpus/links"] = "not asked";
  return machine;
}

TEST(GpuLinks, NvmlTellsLinksAndPeers) {
  Machine machine = on_the_bus();
  find_gpu_links(nvml(), cuda(), &machine);
  ASSERT_EQ(machine.gpus.size(), 3u);
  const Gpu& first = machine.gpus[0];
  EXPECT_EQ(first.model, "Stand-in 0");
  EXPECT_EQ(first.memory_gib, 80);
  EXPECT_EQ(first.compute_capability, "9.0");
  EXPECT_EQ(first.nvlink_version, 4);
  EXPECT_EQ(first.peer_links, (std::map<int, int>{{1, 2}}));
  EXPECT_EQ(first.switch_links, 1);
  EXPECT_EQ(first.peers, (std::vector<int>{1}));
  EXPECT_EQ(first.pci.bridges, (std::vector<std::string>{"pci0000:1b"}));  // as the kernel knows it
  EXPECT_EQ(machine.gpus[1].peer_links, (std::map<int, int>{{0, 2}}));
  EXPECT_EQ(machine.gpus[2].pci.address, "0000:df:00.0");
  EXPECT_EQ(machine.gpus[2].switch_links, 1);  // the other end is not told, but it is no GPU
  EXPECT_TRUE(machine.gpus[2].peers.empty());
  EXPECT_FALSE(machine.absent.contains("gpus/links"));
  EXPECT_EQ(machine.absent.at("gpus"), "1 more on the bus that the driver does not show");
}

TEST(GpuLinks, CudaStandsInForAMissingNvml) {
  Machine machine = on_the_bus();
  find_gpu_links("libno-such-nvml.so", cuda(), &machine);
  ASSERT_EQ(machine.gpus.size(), 2u);
  EXPECT_EQ(machine.gpus[1].model, "CUDA double");
  EXPECT_EQ(machine.gpus[1].pci.bridges, (std::vector<std::string>{"pci0000:43"}));
  EXPECT_EQ(machine.gpus[1].compute_capability, "8.6");
  EXPECT_EQ(machine.gpus[1].peers, (std::vector<int>{0}));
  EXPECT_NE(machine.absent.at("gpus/links").find("NVML can't be opened"), std::string::npos);
}

TEST(GpuLinks, WithoutEitherTheGpusStayAsTheKernelListsThem) {
  Machine machine = on_the_bus();
  find_gpu_links("libno-such-nvml.so", nvml(), &machine);  // a library, but not CUDA's
  EXPECT_EQ(machine.gpus, on_the_bus().gpus);
  EXPECT_NE(machine.absent.at("gpus/links").find("has no cuInit"), std::string::npos);
  EXPECT_FALSE(machine.absent.contains("gpus"));
}

TEST(GpuLinks, ADriverThatRefusesIsNamed) {
  ::setenv("RODA_TEST_NVML", "fails", 1);
  Machine machine = on_the_bus();
  find_gpu_links(nvml(), "libno-such-cuda.so", &machine);
  ::unsetenv("RODA_TEST_NVML");
  EXPECT_EQ(machine.absent.at("gpus/links").find("nvmlInit_v2: Driver Not Loaded; no CUDA driver: libno-such-cuda.so"),
            0u);
  EXPECT_EQ(machine.gpus, on_the_bus().gpus);
  find_gpu_links(cuda(), "libno-such-cuda.so", &machine);
  EXPECT_NE(machine.absent.at("gpus/links").find("lacks functions of NVML"), std::string::npos);
}

}  // namespace
}  // namespace roda::topology

#include "core/topology/json.h"

#include <gtest/gtest.h>

#include "tests/unit/topology/samples.h"

namespace roda::topology {
namespace {

TEST(TopologyPrint, IsATree) {
  EXPECT_EQ(
      print(sample_topology()),
      "3 ranks on 2 hosts, 2 kinds of machine\n"
      "├─ a: ranks 0,2, machine big\n"
      "│  ├─ rank 0: cpus 0,2\n"
      "│  └─ rank 2: cpus 1\n"
      "└─ b: rank 1, machine small\n"
      "   └─ rank 1: cpus 0, limited to 0.5 cores' worth of time\n"
      "machine big: sample, 2 cores, 4 threads, 32 GiB\n"
      "├─ package 0: left, 1 core\n"
      "│  └─ NUMA node 0: 16 GiB, cpus 0,2\n"
      "│     ├─ L1 48 KiB for each of 1 core\n"
      "│     └─ bridge 0000:00:01.0\n"
      "│        ├─ 0000:01:00.0  GPU 0: GPU A, 80 GiB, compute capability 9.0\n"
      "│        └─ 0000:01:00.0  interface eth0, 25 Gbit/s\n"
      "├─ package 1: right, 1 core\n"
      "│  └─ NUMA node 1: 16 GiB, cpus 1,3\n"
      "│     ├─ L1 48 KiB for each of 1 core\n"
      "│     └─ bridge 0000:80:01.0\n"
      "│        ├─ 0000:81:00.0  GPU 1: GPU B, 80 GiB, compute capability 9.0\n"
      "│        └─ 0000:81:00.0  RDMA mlx5_0, InfiniBand, 200 Gbit/s, Ethernet, down\n"
      "├─ interface veth1, down, virtual\n"
      "├─ GPU 0 reaches 4 NVLinks to GPU 1 (100 GB/s each way); its network device is mlx5_0 (across the machine)\n"
      "├─ GPU 1 reaches 6 NVLinks to the switch (150 GB/s each way); its network device is mlx5_0 (one device)\n"
      "├─ not known: gpus: one more\n"
      "└─ source: a book\n"
      "machine small: 0 cores, 1 thread\n");
}

TEST(TopologyPrint, HostsOfOneNameAreToldApart) {
  Topology topology{{{"m", {}}}, {{"node", "boot 1", 0, {0}}, {"node", "boot 2", 0, {1}}}, {}};
  const std::string text = print(topology);
  EXPECT_NE(text.find("node (boot 1): rank 0"), std::string::npos) << text;
  EXPECT_NE(text.find("node (boot 2): rank 1"), std::string::npos) << text;
  topology.hosts[1].name = "other";
  EXPECT_EQ(print(topology).find("boot"), std::string::npos);
}

TEST(TopologyPrint, ManyHostsAreCounted) {
  Topology topology{{{"m", {}}}, {}, {}};
  for (int i = 0; i < 1000; ++i) topology.hosts.push_back({"h", "", 0, {i}});
  EXPECT_NE(print(topology).find("and 968 more hosts"), std::string::npos);
}

TEST(TopologyPrint, Sizes) {
  EXPECT_EQ(size_text(48), "48 KiB");
  EXPECT_EQ(size_text(1024), "1 MiB");
  EXPECT_EQ(size_text(1280), "1280 KiB");
}

}  // namespace
}  // namespace roda::topology

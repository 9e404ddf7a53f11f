#include "algorithms/topology/host_tree.h"

#include <gtest/gtest.h>

namespace roda::topology {
namespace {

TEST(HostTree, EverySubtreeIsABlockAndEveryEdgeIsKnownAtBothEnds) {
  for (int hosts = 1; hosts <= 70; ++hosts) {
    for (const int fan_out : {1, 2, 3, 8}) {
      EXPECT_EQ(place_of(0, hosts, fan_out).parent, -1);
      EXPECT_EQ(place_of(0, hosts, fan_out).end, hosts);
      for (int host = 0; host < hosts; ++host) {
        const HostPlace place = place_of(host, hosts, fan_out);
        ASSERT_LE(place.children.size(), static_cast<std::size_t>(fan_out));
        int next = host + 1;  // children's blocks fill this one's, in order
        for (const int child : place.children) {
          ASSERT_EQ(child, next);
          ASSERT_EQ(place_of(child, hosts, fan_out).parent, host);
          next = place_of(child, hosts, fan_out).end;
        }
        ASSERT_EQ(next, place.end);
      }
    }
  }
}

TEST(HostTree, IsShallow) {
  int depth = 0;
  for (int host = 4095; host > 0; host = place_of(host, 4096, 8).parent) ++depth;
  EXPECT_LE(depth, 4);
}

}  // namespace
}  // namespace roda::topology

#include "transports/verbs/device.h"

#include <gtest/gtest.h>

#include <roda/sdk/error.hpp>

namespace roda::verbs {
namespace {

using Indices = std::vector<std::size_t>;
using Address = std::array<std::uint8_t, 16>;

const std::vector<PortFacts> kPorts = {
    {"mlx5_0", 1, true, "active", 0}, {"mlx5_1", 1, false, "down", 0},  {"mlx5_1", 2, true, "active", 0},
    {"mlx5_2", 1, true, "active", 1}, {"mlx5_3", 1, true, "active", 1},
};

std::string refusal(const std::vector<PortFacts>& ports, const std::string& wanted) {
  try {
    choose_ports(ports, wanted, -1, 8);
  } catch (const sdk::Failure& failure) {
    EXPECT_EQ(failure.code(), RODA_ERR_UNAVAILABLE);
    return failure.what();
  }
  ADD_FAILURE() << wanted << " was accepted";
  return "";
}

Address ipv4() { return {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 77, 0, 1}; }
Address ipv6() { return {0xfd, 0x77, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1}; }
Address link_local() { return {0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1}; }

ibv_gid_entry entry(std::uint32_t index, ibv_gid_type type, const Address& address) {
  ibv_gid_entry made{};
  made.gid_index = index;
  made.gid_type = type;
  std::ranges::copy(address, made.gid.raw);
  return made;
}

TEST(Ports, TakesTheActiveOnesOfTheNearNode) {
  EXPECT_EQ(choose_ports(kPorts, "", 0, 8), (Indices{0, 2}));
  EXPECT_EQ(choose_ports(kPorts, "", 1, 8), (Indices{3, 4}));
}

TEST(Ports, TakesAllActiveOnesWhenNoneIsNear) {
  EXPECT_EQ(choose_ports(kPorts, "", -1, 8), (Indices{0, 2, 3, 4}));
  EXPECT_EQ(choose_ports(kPorts, "", 7, 8), (Indices{0, 2, 3, 4}));
  EXPECT_EQ(choose_ports(kPorts, "", -1, 3), (Indices{0, 2, 3}));
}

TEST(Ports, TakesWhatIsNamedInThatOrder) {
  EXPECT_EQ(choose_ports(kPorts, "mlx5_3,mlx5_1:2,mlx5_0:1", 0, 8), (Indices{4, 2, 0}));
}

TEST(Ports, RefusesWithWhatThereIs) {
  EXPECT_EQ(refusal(kPorts, "mlx5_1"), "RODA_VERBS_DEVICES names mlx5_1, whose port is down");
  EXPECT_NE(refusal(kPorts, "mlx9").find("there are mlx5_0:1 (active), mlx5_1:1 (down)"), std::string::npos);
  EXPECT_EQ(refusal({kPorts[1]}, ""), "no RDMA port is active: there are mlx5_1:1 (down)");
}

TEST(Gids, PrefersTheNewerProtocolThenTheWiderAddress) {
  const auto v1 = entry(0, IBV_GID_TYPE_ROCE_V1, ipv4()), local = entry(1, IBV_GID_TYPE_ROCE_V2, link_local());
  const auto global = entry(2, IBV_GID_TYPE_ROCE_V2, ipv6()), four = entry(3, IBV_GID_TYPE_ROCE_V2, ipv4());
  EXPECT_EQ(choose_gid({v1, local, global, four}), 3);
  EXPECT_EQ(choose_gid({v1, local, global}), 2);
  EXPECT_EQ(choose_gid({v1, local}), 1);
  EXPECT_EQ(choose_gid({v1}), 0);
}

TEST(Gids, TakesTheFirstAmongEqualsAndNoEmptyOne) {
  const auto empty = entry(0, IBV_GID_TYPE_ROCE_V2, {});
  const auto first = entry(4, IBV_GID_TYPE_ROCE_V2, ipv4()), second = entry(5, IBV_GID_TYPE_ROCE_V2, ipv4());
  EXPECT_EQ(choose_gid({empty, first, second}), 4);
  EXPECT_EQ(choose_gid({empty}), -1);
  EXPECT_EQ(choose_gid({}), -1);
}

TEST(Gids, AreWrittenAsAddresses) {
  EXPECT_EQ(gid_text(ipv4()), "10.77.0.1");
  EXPECT_EQ(gid_text(ipv6()), "fd77::1");
}

}  // namespace
}  // namespace roda::verbs

// Which addresses are offered to other ranks, and in which order.
#include "plugins/base/local_address.h"

#include <gtest/gtest.h>
#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <string>
#include <vector>

namespace roda {
namespace {

TEST(LocalAddress, IdentityIsStableAndNotEmpty) {
  EXPECT_EQ(loopback_identity(), loopback_identity());
  EXPECT_GT(loopback_identity().size(), 20u);
}

TEST(LocalAddress, AnotherNetworkNamespaceIsAnotherIdentity) {
  constexpr int kMayNot = 77;
  const std::string here = loopback_identity();
  const pid_t child = ::fork();
  if (child == 0) {
    if (::unshare(CLONE_NEWNET) != 0) ::_exit(kMayNot);
    ::_exit(loopback_identity() != here ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFEXITED(status));
  if (WEXITSTATUS(status) == kMayNot) GTEST_SKIP() << "no right to make a network namespace";
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

TEST(LocalAddress, NamedInterfacesComeInTheOrderOfTheirNames) {
  ASSERT_FALSE(addresses_of_interfaces("lo").empty());
  EXPECT_TRUE(addresses_of_interfaces("lo").front().is_loopback());
  EXPECT_TRUE(addresses_of_interfaces("nosuch0").empty());
  EXPECT_EQ(addresses_of_interfaces("nosuch0,lo").front().text(), addresses_of_interfaces("lo").front().text());
}

std::vector<SocketAddress> numeric(const std::string& address) {
  std::vector<SocketAddress> one;
  EXPECT_TRUE(resolve(address, 0, &one).ok());
  return one;
}

TEST(LocalAddress, LoopbackIsTheLastResort) {
  const std::vector<SocketAddress> all = network_addresses("");
  ASSERT_GE(all.size(), 2u);
  EXPECT_EQ(all[all.size() - 2].host(), "127.0.0.1");
  EXPECT_EQ(all.back().host(), "::1");
}

TEST(LocalAddress, WhatIsKnownIsTheOnlyChoice) {
  const std::vector<SocketAddress> all = network_addresses("192.0.2.1");  // a documentation address
  ASSERT_EQ(all.size(), 1u);
  EXPECT_EQ(all.front().host(), "192.0.2.1");
}

TEST(LocalAddress, OnlyAddressesOfThisHostAreItsOwn) {
  EXPECT_TRUE(own_among(numeric("192.0.2.1")).empty());
  // Names that resolve to loopback, as Debian's /etc/hosts has them, say nothing about the network.
  EXPECT_TRUE(own_among(loopback_addresses()).empty());
}

// Two addresses, of which the second interface's is not the first choice.
TEST(LocalAddress, OthersReachTheFirstKnownAddressThatIsItsOwn) {
  constexpr int kMayNot = 77;
  const pid_t child = ::fork();
  if (child == 0) {
    const auto run = [](const char* command) { return std::system(command) == 0; };
    if (::unshare(CLONE_NEWNET) != 0 || !run("ip link add wire0 type veth peer name docker0 2>/dev/null") ||
        !run("ip addr add 172.17.0.1/16 dev docker0 && ip link set docker0 up") ||
        !run("ip addr add 10.1.2.3/24 dev wire0 && ip link set wire0 up")) {
      ::_exit(kMayNot);
    }
    EXPECT_EQ(network_address({}), "172.17.0.1");
    EXPECT_EQ(network_address({"192.0.2.1"}), "172.17.0.1") << "of something that translates addresses";
    EXPECT_EQ(network_address({"192.0.2.1", "10.1.2.3", "172.17.0.1"}), "10.1.2.3");
    EXPECT_EQ(interface_of("10.1.2.3"), "wire0");
    EXPECT_EQ(interface_of("192.0.2.1"), "");
    ::_exit(::testing::Test::HasFailure() ? 1 : 0);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFEXITED(status));
  if (WEXITSTATUS(status) == kMayNot) GTEST_SKIP() << "no right to make a network namespace";
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

TEST(LocalAddress, InterfacesAreNamedWithTheirAddresses) {
  EXPECT_NE(interfaces_up().find("lo (127.0.0.1)"), std::string::npos);
}

}  // namespace
}  // namespace roda

// Which addresses are offered to other ranks, and in which order.
#include "plugins/base/local_address.h"

#include <gtest/gtest.h>
#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>

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

TEST(LocalAddress, LoopbackIsTheLastResort) {
  const std::vector<SocketAddress> all = network_addresses({});
  ASSERT_GE(all.size(), 2u);
  EXPECT_EQ(all[all.size() - 2].host(), "127.0.0.1");
  EXPECT_EQ(all.back().host(), "::1");
}

TEST(LocalAddress, ANameIsFollowedOnlyToAnAddressOfThisHost) {
  std::vector<SocketAddress> elsewhere;
  ASSERT_TRUE(resolve("192.0.2.1", 0, &elsewhere).ok());  // a documentation address
  for (const SocketAddress& address : network_addresses(elsewhere)) EXPECT_NE(address.host(), "192.0.2.1");
  // Names that resolve to loopback, as Debian's /etc/hosts has them, say nothing about the network.
  const std::vector<SocketAddress> all = network_addresses(loopback_addresses());
  EXPECT_EQ(std::count_if(all.begin(), all.end(), [](const auto& a) { return a.is_loopback(); }), 2);
}

TEST(LocalAddress, InterfacesAreNamedWithTheirAddresses) {
  EXPECT_NE(interfaces_up().find("lo (127.0.0.1)"), std::string::npos);
}

}  // namespace
}  // namespace roda

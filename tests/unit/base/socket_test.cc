#include "plugins/base/socket.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>

#include "plugins/base/local_address.h"

namespace roda {
namespace {

SocketAddress address_of(const char* host, int port = 0) {
  std::vector<SocketAddress> addresses;
  Status status = resolve(host, port, &addresses);
  EXPECT_TRUE(status.ok()) << status.message();
  return addresses.empty() ? SocketAddress() : addresses.front();
}

TEST(Address, TextOfBothFamilies) {
  EXPECT_EQ(address_of("127.0.0.1", 80).text(), "127.0.0.1:80");
  EXPECT_EQ(address_of("::1", 80).text(), "[::1]:80");
  SocketAddress address = address_of("10.1.2.3", 1);
  address.set_port(65535);
  EXPECT_EQ(address.text(), "10.1.2.3:65535");
  EXPECT_FALSE(address.is_loopback());
  EXPECT_TRUE(address_of("127.9.9.9").is_loopback());
  EXPECT_TRUE(address_of("::1").is_loopback());
}

TEST(Address, AnUnknownHostIsNamed) {
  std::vector<SocketAddress> addresses;
  Status status = resolve("no-such-host.invalid", 1, &addresses);
  EXPECT_EQ(status.code(), RODA_ERR_INVALID);
  EXPECT_NE(status.message().find("no-such-host.invalid"), std::string::npos);
}

TEST(Address, InterfacesAreFoundByName) {
  SocketAddress address;
  ASSERT_TRUE(interface_address("lo", &address).ok());
  EXPECT_TRUE(address.is_loopback());
  ASSERT_TRUE(interface_address("nope0,lo", &address).ok());
  EXPECT_TRUE(address.is_loopback());
  ASSERT_TRUE(interface_address("", &address).ok());
  Status status = interface_address("nope0", &address);
  EXPECT_EQ(status.code(), RODA_ERR_INVALID);
  EXPECT_NE(status.message().find("'nope0'"), std::string::npos);
  EXPECT_NE(status.message().find("lo"), std::string::npos);
}

TEST(Socket, DescriptorsAreNonBlockingAndCloseOnExec) {
  UniqueFd listener, client, server;
  SocketAddress bound, peer;
  ASSERT_TRUE(tcp::listen_on(address_of("127.0.0.1"), &listener, &bound).ok());
  EXPECT_GT(bound.port(), 0);
  ASSERT_TRUE(tcp::accept_one(listener.get(), &server, &peer).ok());
  EXPECT_FALSE(server);  // nobody there yet
  ASSERT_TRUE(tcp::connect_start(bound, &client).ok());
  pollfd entry{listener.get(), POLLIN, 0};
  ASSERT_EQ(::poll(&entry, 1, 10'000), 1);
  ASSERT_TRUE(tcp::accept_one(listener.get(), &server, &peer).ok());
  ASSERT_TRUE(server);
  for (int fd : {listener.get(), client.get(), server.get()}) {
    EXPECT_TRUE(::fcntl(fd, F_GETFL) & O_NONBLOCK);
    EXPECT_TRUE(::fcntl(fd, F_GETFD) & FD_CLOEXEC);
  }
  bool connected = false;
  while (!connected) ASSERT_TRUE(tcp::connect_test(client.get(), &connected).ok());
  ASSERT_TRUE(tcp::set_options(client.get(), std::chrono::seconds(8)).ok());
  int value = 0;
  socklen_t length = sizeof value;
  ASSERT_EQ(::getsockopt(client.get(), IPPROTO_TCP, TCP_USER_TIMEOUT, &value, &length), 0);
  EXPECT_EQ(value, 8000);
  ASSERT_EQ(::getsockopt(client.get(), IPPROTO_TCP, TCP_NODELAY, &value, &length), 0);
  EXPECT_NE(value, 0);
  tcp::unpace_if_local(client.get());
  char congestion[16] = "";
  length = sizeof congestion;
  ASSERT_EQ(::getsockopt(client.get(), IPPROTO_TCP, TCP_CONGESTION, congestion, &length), 0);
  EXPECT_STREQ(congestion, "reno");
}

TEST(Socket, ATakenPortIsAnErrorWithTheAddress) {
  UniqueFd first, second;
  SocketAddress bound, other;
  ASSERT_TRUE(tcp::listen_on(address_of("127.0.0.1"), &first, &bound).ok());
  Status status = tcp::listen_on(bound, &second, &other);
  EXPECT_EQ(status.code(), RODA_ERR_SYSTEM);
  EXPECT_NE(status.message().find(bound.text()), std::string::npos);
}

}  // namespace
}  // namespace roda

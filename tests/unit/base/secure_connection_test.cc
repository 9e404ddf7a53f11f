#include "plugins/base/secure_connection.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include <random>

#include "plugins/base/socket.h"

namespace roda {
namespace {

using Buffer = std::vector<std::uint8_t>;
using Connection = std::unique_ptr<SecureConnection>;

Secret secret_of(std::uint8_t fill) { return Secret(Buffer(32, fill)); }

SocketAddress loopback() {
  std::vector<SocketAddress> addresses;
  EXPECT_TRUE(resolve("127.0.0.1", 0, &addresses).ok());
  return addresses.front();
}

void wait_for(int fd, short events) {
  pollfd entry{fd, events, 0};
  ASSERT_GT(::poll(&entry, 1, 10'000), 0) << "nothing happened on the descriptor";
}

class SecureConnectionTest : public ::testing::Test {
 protected:
  void SetUp() override { ASSERT_TRUE(tcp::listen_on(loopback(), &listener_, &address_).ok()); }

  Connection connect(std::uint8_t secret, ConnectionOptions options = {}) {
    Connection connection;
    Status status = SecureConnection::connect({address_}, secret_of(secret), options, &connection);
    EXPECT_TRUE(status.ok()) << status.message();
    return connection;
  }
  UniqueFd accept_raw() {
    wait_for(listener_.get(), POLLIN);
    UniqueFd fd;
    EXPECT_TRUE(tcp::accept_one(listener_.get(), &fd, &peer_).ok());
    EXPECT_TRUE(fd);
    return fd;
  }
  Connection accept(std::uint8_t secret, ConnectionOptions options = {}) {
    Connection connection;
    Status status = SecureConnection::accept(accept_raw(), peer_, secret_of(secret), options, &connection);
    EXPECT_TRUE(status.ok()) << status.message();
    return connection;
  }
  // A plain TCP client for the attacker's part.
  UniqueFd connect_raw() {
    UniqueFd fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    EXPECT_EQ(::connect(fd.get(), address_.get(), address_.length), 0);
    return fd;
  }
  // Drives both until each is ready or failed.
  static std::pair<Status, Status> settle(SecureConnection& a, SecureConnection& b) {
    Status sa, sb;
    bool ready_a = false, ready_b = false;
    while ((sa.ok() && !ready_a) || (sb.ok() && !ready_b)) {
      if (sa.ok() && !ready_a) sa = a.test(&ready_a);
      if (sb.ok() && !ready_b) sb = b.test(&ready_b);
    }
    return {sa, sb};
  }
  void ready_pair(Connection* client, Connection* server, ConnectionOptions options = {}) {
    *client = connect(1, options);
    *server = accept(1, options);
    auto [a, b] = settle(**client, **server);
    ASSERT_TRUE(a.ok()) << a.message();
    ASSERT_TRUE(b.ok()) << b.message();
  }
  static Status drive_until_end(SecureConnection& connection) {
    while (true) {
      bool ready = false;
      Status status = connection.test(&ready);
      if (!status.ok() || ready) return status;
      wait_for(connection.fd(), connection.wants_write() ? POLLIN | POLLOUT : POLLIN);
    }
  }

  UniqueFd listener_;
  SocketAddress address_, peer_;
};

Buffer receive(SecureConnection& from) {
  Buffer frame;
  bool received = false;
  while (true) {
    Status status = from.receive_frame(&frame, &received);
    EXPECT_TRUE(status.ok()) << status.message();
    if (!status.ok() || received) return frame;
    wait_for(from.fd(), POLLIN);
  }
}

TEST_F(SecureConnectionTest, FramesGoBothWaysOnceBothAreReady) {
  Connection client, server;
  ready_pair(&client, &server);
  bool accepted = false;
  ASSERT_TRUE(client->send_frame(Buffer{1, 2, 3}, &accepted).ok());
  EXPECT_TRUE(accepted);
  EXPECT_EQ(receive(*server), (Buffer{1, 2, 3}));
  ASSERT_TRUE(server->send_frame(Buffer{}, &accepted).ok());
  EXPECT_EQ(receive(*client), Buffer{});
}

TEST_F(SecureConnectionTest, FramesSentRightAfterTheHandshakeAreNotLost) {
  Connection client = connect(1);
  Connection server = accept(1);
  bool client_ready = false, server_ready = false, accepted = false;
  while (!client_ready) {
    ASSERT_TRUE(client->test(&client_ready).ok());
    if (!server_ready) {
      ASSERT_TRUE(server->test(&server_ready).ok());
    } else if (!accepted) {
      ASSERT_TRUE(server->send_frame(Buffer{42}, &accepted).ok());
    }
  }
  EXPECT_EQ(receive(*client), Buffer{42});
}

TEST_F(SecureConnectionTest, BackPressureIsNotAnError) {
  Connection client, server;
  ConnectionOptions options;
  options.max_queued = 1 << 20;
  ready_pair(&client, &server, options);
  Buffer big(1 << 20, 5);
  int sent = 0;
  bool accepted = true;
  while (accepted) {
    ASSERT_TRUE(client->send_frame(big, &accepted).ok());
    sent += accepted;
    ASSERT_LT(sent, 1000);
  }
  EXPECT_TRUE(client->wants_write());
  for (int i = 0; i < sent; ++i) {
    Buffer frame;
    bool received = false;
    while (!received) {
      ASSERT_TRUE(client->flush().ok());
      ASSERT_TRUE(server->receive_frame(&frame, &received).ok());
    }
    ASSERT_EQ(frame, big);
  }
  EXPECT_FALSE(client->wants_write());
}

TEST_F(SecureConnectionTest, NothingIsSentBeforeReady) {
  Connection client = connect(1);
  bool accepted = false;
  EXPECT_EQ(client->send_frame(Buffer{1}, &accepted).code(), RODA_ERR_PRECONDITION);
  Buffer frame;
  EXPECT_EQ(client->receive_frame(&frame, &accepted).code(), RODA_ERR_PRECONDITION);
}

TEST_F(SecureConnectionTest, AWrongSecretFailsBothSidesAndTheErrorStays) {
  Connection client = connect(1);
  Connection server = accept(2);
  auto [a, b] = settle(*client, *server);
  EXPECT_EQ(a.code(), RODA_ERR_AUTH);
  EXPECT_EQ(a.message(),
            "connection with " + address_.text() + ": it refused our proof: the two sides have different secrets");
  EXPECT_EQ(b.code(), RODA_ERR_AUTH);
  EXPECT_EQ(b.message(), "connection with " + peer_.text() + ": it does not know the job's secret");
  bool accepted = false;
  EXPECT_EQ(server->send_frame(Buffer{1}, &accepted).message(), b.message());
  EXPECT_FALSE(server->wants_write());
}

TEST_F(SecureConnectionTest, NobodyListensIsAnErrorWithTheAddress) {
  listener_.reset();
  Connection client;
  Status status = SecureConnection::connect({address_}, secret_of(1), {}, &client);
  if (status.ok()) status = drive_until_end(*client);
  EXPECT_EQ(status.code(), RODA_ERR_SYSTEM);
  EXPECT_NE(status.message().find(address_.text()), std::string::npos);
  EXPECT_NE(status.message().find("Connection refused"), std::string::npos);
}

TEST_F(SecureConnectionTest, TheNextAddressIsTried) {
  UniqueFd closed;
  SocketAddress nobody;
  ASSERT_TRUE(tcp::listen_on(loopback(), &closed, &nobody).ok());
  closed.reset();
  Connection client;
  ASSERT_TRUE(SecureConnection::connect({nobody, address_}, secret_of(1), {}, &client).ok());
  bool ready = false;
  while (client->peer() != address_.text()) ASSERT_TRUE(client->test(&ready).ok());
  Connection server = accept(1);
  auto [a, b] = settle(*client, *server);
  EXPECT_TRUE(a.ok() && b.ok());
}

TEST_F(SecureConnectionTest, GarbageNeverGetsIn) {
  std::mt19937 random(3);
  for (int round = 0; round < 200; ++round) {
    UniqueFd attacker = connect_raw();
    Connection server = accept(1);
    Buffer bytes(1 + random() % 300);
    for (auto& byte : bytes) byte = static_cast<std::uint8_t>(random());
    if (round % 2 == 0) std::copy_n("roda\1\0\0\0", std::min<std::size_t>(8, bytes.size()), bytes.begin());
    ASSERT_EQ(::send(attacker.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL), static_cast<ssize_t>(bytes.size()));
    ::shutdown(attacker.get(), SHUT_WR);
    Status status = drive_until_end(*server);
    EXPECT_TRUE(status.code() == RODA_ERR_AUTH || status.code() == RODA_ERR_PEER) << status.message();
    EXPECT_FALSE(server->ready());
  }
}

TEST_F(SecureConnectionTest, AHalfClosedStrangerIsNamed) {
  UniqueFd stranger = connect_raw();
  Connection server = accept(1);
  ::shutdown(stranger.get(), SHUT_WR);
  Status status = drive_until_end(*server);
  EXPECT_EQ(status.code(), RODA_ERR_AUTH);
  EXPECT_NE(status.message().find("closed the connection before the client's hello"), std::string::npos);
}

TEST_F(SecureConnectionTest, ASlowStrangerMeetsTheDeadline) {
  ConnectionOptions options;
  options.handshake_timeout = std::chrono::milliseconds(0);
  UniqueFd stranger = connect_raw();
  Connection server = accept(1, options);
  ASSERT_EQ(::send(stranger.get(), "rod", 3, 0), 3);
  bool ready = false;
  Status status = server->test(&ready);
  EXPECT_EQ(status.code(), RODA_ERR_TIMEOUT);
  EXPECT_NE(status.message().find("the client's hello"), std::string::npos);
}

TEST_F(SecureConnectionTest, AnOversizeFrameFromTheInsideIsRefused) {
  Connection client, server;
  ready_pair(&client, &server);
  const std::uint8_t length[] = {0xff, 0xff, 0xff, 0xff};
  ASSERT_EQ(::send(client->fd(), length, sizeof length, 0), 4);
  wait_for(server->fd(), POLLIN);
  Buffer frame;
  bool received = false;
  EXPECT_EQ(server->receive_frame(&frame, &received).code(), RODA_ERR_INVALID);
}

TEST_F(SecureConnectionTest, ADeadPeerIsAPeerError) {
  Connection client, server;
  ready_pair(&client, &server);
  client.reset();
  wait_for(server->fd(), POLLIN);
  Buffer frame;
  bool received = false;
  Status status = server->receive_frame(&frame, &received);
  EXPECT_EQ(status.code(), RODA_ERR_PEER);
  EXPECT_NE(status.message().find("the connection was closed"), std::string::npos);
}

TEST_F(SecureConnectionTest, AForkedChildDoesNotKeepTheConnection) {
  Connection client, server;
  ready_pair(&client, &server);
  int gate[2];
  ASSERT_EQ(::pipe(gate), 0);
  pid_t child = ::fork();
  if (child == 0) {
    ::close(gate[1]);
    char byte;
    bool forked = is_forked_child();
    ::_exit(::read(gate[0], &byte, 1) == 0 && forked ? 0 : 1);
  }
  ::close(gate[0]);
  client.reset();
  wait_for(server->fd(), POLLIN);  // only if the child has let go as well
  ::close(gate[1]);
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_FALSE(is_forked_child());
}

}  // namespace
}  // namespace roda

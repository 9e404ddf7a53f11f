// Strangers at the door: they are sent away, and members connect all the same.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/socket.h>

#include <atomic>
#include <chrono>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "plugins/base/secure_connection.h"
#include "plugins/base/socket.h"
#include "tests/transports/thread_ranks.h"
#include "transports/tcp/group.h"
#include "transports/tcp/tcp.h"

namespace roda::transport_test {
namespace {

// What rank 0 told the others.
template <typename Value>
Value told_by_rank_0(Board& board, const char* key) {
  Value value{};
  Board::Seat seat{&board, 1};
  size_t bytes = sizeof value;
  EXPECT_EQ(Board::get(&seat, 0, key, &value, &bytes, nullptr), RODA_OK);
  return value;
}

// Rank 1 of two connects only when `strangers` is through with rank 0, which waits for it all the time. *warned:
// what that warned of.
void connect_despite(const std::function<void(const SocketAddress& door, const Digest& key)>& strangers,
                     std::string* warned = nullptr) {
  Board board;
  Member first(roda_tcp_transport(), board, 0, 2);
  Member second(roda_tcp_transport(), board, 1, 2);
  std::thread forming([&] { EXPECT_EQ(first.form(), RODA_OK) << first.text(); });
  EXPECT_EQ(second.form(), RODA_OK) << second.text();
  forming.join();
  std::atomic<bool> is_over{false};
  std::thread waiting([&] {
    char in = 'i';
    while (!is_over) first.progress();
    roda_request* received = nullptr;
    ASSERT_EQ(first.receive(1, 1, &in, 1, &received), RODA_OK);
    EXPECT_EQ(first.wait(received), RODA_OK) << first.text();
    EXPECT_EQ(in, 'o');
  });
  const auto told = told_by_rank_0<tcp_transport::Address>(board, tcp_transport::kAddressKey);
  strangers(told.contact.where(), told.key);
  roda_request* sent = nullptr;
  ASSERT_EQ(second.send(0, 1, "o", 1, &sent), RODA_OK);
  EXPECT_EQ(second.wait(sent), RODA_OK) << second.text();
  is_over = true;
  waiting.join();
  if (warned != nullptr) *warned = first.warnings();
}

UniqueFd connect_to(const SocketAddress& door) {
  UniqueFd fd(::socket(door.family(), SOCK_STREAM | SOCK_CLOEXEC, 0));
  EXPECT_EQ(::connect(fd.get(), door.get(), door.length), 0);
  return fd;
}

UniqueFd connect_proved(const SocketAddress& door, const Secret& secret, Status* status) {
  ConnectionOptions options;
  options.service = tcp_transport::kService;
  std::unique_ptr<SecureConnection> connection;
  *status = SecureConnection::connect({door}, secret, options, &connection);
  bool ready = false;
  while (status->ok() && !ready) *status = connection->test(&ready);
  if (!status->ok()) return {};
  UniqueFd fd = connection->release();
  ::fcntl(fd.get(), F_SETFL, 0);  // for reads that wait
  return fd;
}

// Until the other side hangs up.
void wait_for_end(int fd) {
  char buffer[256];
  while (::recv(fd, buffer, sizeof buffer, 0) > 0) {
  }
}

TEST(TcpTrust, GarbageIsHungUpOn) {
  std::string warned;
  const auto strangers = [](const SocketAddress& door, const Digest&) {
    for (int i = 0; i < 20; ++i) {
      const UniqueFd fd = connect_to(door);
      const std::string text = "GET / HTTP/1.1\r\n\r\n";
      ::send(fd.get(), text.data(), text.size(), MSG_NOSIGNAL);
      wait_for_end(fd.get());
    }
  };
  connect_despite(strangers, &warned);
  EXPECT_NE(warned.find("the 20. connection that was refused"), std::string::npos) << warned;
}

// A rank that ends early, perhaps for an error of its program: what the others print must not draw eyes from that.
TEST(TcpTrust, AMemberThatLeavesIsNoStranger) {
  std::string warned;
  const auto strangers = [](const SocketAddress& door, const Digest& key) {
    for (int i = 0; i < 20; ++i) {
      Status status;
      EXPECT_TRUE(connect_proved(door, Secret(key), &status)) << status.message();
    }
  };
  connect_despite(strangers, &warned);
  EXPECT_EQ(warned, "");
}

TEST(TcpTrust, SilentStrangersKeepNobodyOut) {
  std::vector<UniqueFd> silent;
  connect_despite([&](const SocketAddress& door, const Digest&) {
    for (int i = 0; i < 400; ++i) silent.push_back(connect_to(door));
  });
}

TEST(TcpTrust, AnotherProcessesKeyIsRefused) {
  connect_despite([](const SocketAddress& door, const Digest&) {
    Status status;
    EXPECT_FALSE(connect_proved(door, Secret(std::vector<std::uint8_t>(32, 7)), &status));
    EXPECT_EQ(status.code(), RODA_ERR_AUTH) << status.message();
  });
}

// Whoever is in one group with a process knows its key, and is let into no other group by it.
TEST(TcpTrust, AMemberOfAnotherGroupIsHungUpOn) {
  connect_despite([&](const SocketAddress& door, const Digest& key) {
    for (const int rank : {-1, 0, 1, 2, 1 << 30}) {
      Status status;
      const UniqueFd fd = connect_proved(door, Secret(key), &status);
      ASSERT_TRUE(status.ok()) << status.message();
      tcp_transport::Hello hello;
      hello.rank = rank;
      hello.group.fill(7);
      ::send(fd.get(), &hello, sizeof hello, MSG_NOSIGNAL);
      wait_for_end(fd.get());
    }
  });
}

}  // namespace
}  // namespace roda::transport_test

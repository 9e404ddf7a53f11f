// Strangers at the door while a group forms: they are sent away, and the group forms all the same.
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
#include "transports/tcp/tcp.h"
#include "transports/tcp/wire.h"

namespace roda::transport_test {
namespace {

// Where rank 0 listens, as it told the others.
SocketAddress door_of_rank_0(Board& board) {
  struct {
    std::uint32_t length;
    sockaddr_storage storage;
  } published{};
  Board::Seat seat{&board, 1};
  size_t bytes = sizeof published;
  SocketAddress address;
  if (Board::get(&seat, 0, "tcp.address", &published, &bytes, nullptr) != RODA_OK) return address;
  address.length = published.length;
  address.storage = published.storage;
  return address;
}

// Rank 1 of two comes only when `strangers` is through with rank 0, which is forming all the time.
void form_despite(const std::function<void(const SocketAddress& door)>& strangers) {
  Board board;
  std::atomic<bool> is_through{false};
  Member first(roda_tcp_transport(), board, 0, 2);
  Member second(roda_tcp_transport(), board, 1, 2);
  // The second publishes its card, so that the first opens its door, but does not connect yet.
  ASSERT_EQ(roda_tcp_transport()->group_test(second.group(), nullptr), RODA_IN_PROGRESS);
  std::thread forming([&] { EXPECT_EQ(first.form(), RODA_OK) << first.text(); });
  while (door_of_rank_0(board).length == 0) std::this_thread::yield();
  strangers(door_of_rank_0(board));
  EXPECT_EQ(second.form(), RODA_OK) << second.text();
  forming.join();
  char out = 'o', in = 'i';
  roda_request *sent = nullptr, *received = nullptr;
  ASSERT_EQ(second.send(0, 1, &out, 1, &sent), RODA_OK);
  ASSERT_EQ(first.receive(1, 1, &in, 1, &received), RODA_OK);
  EXPECT_EQ(first.wait(received), RODA_OK);
  EXPECT_EQ(in, 'o');
}

UniqueFd connect_to(const SocketAddress& door) {
  UniqueFd fd(::socket(door.family(), SOCK_STREAM | SOCK_CLOEXEC, 0));
  EXPECT_EQ(::connect(fd.get(), door.get(), door.length), 0);
  return fd;
}

// Until the other side hangs up.
void wait_for_end(int fd) {
  char buffer[256];
  while (::recv(fd, buffer, sizeof buffer, 0) > 0) {
  }
}

TEST(TcpTrust, GarbageIsHungUpOn) {
  form_despite([](const SocketAddress& door) {
    for (int i = 0; i < 20; ++i) {
      const UniqueFd fd = connect_to(door);
      const std::string text = "GET / HTTP/1.1\r\n\r\n";
      ::send(fd.get(), text.data(), text.size(), MSG_NOSIGNAL);
      wait_for_end(fd.get());
    }
  });
}

TEST(TcpTrust, SilentStrangersKeepNobodyOut) {
  std::vector<UniqueFd> silent;
  form_despite([&](const SocketAddress& door) {
    for (int i = 0; i < 400; ++i) silent.push_back(connect_to(door));
  });
}

TEST(TcpTrust, AnotherGroupsSecretIsRefused) {
  form_despite([](const SocketAddress& door) {
    const std::vector<std::uint8_t> other(32, 7);
    ConnectionOptions options;
    options.service = tcp_transport::kService;
    std::unique_ptr<SecureConnection> connection;
    ASSERT_TRUE(SecureConnection::connect({door}, Secret(other), options, &connection).ok());
    bool ready = false;
    Status status;
    while (status.ok() && !ready) status = connection->test(&ready);
    EXPECT_EQ(status.code(), RODA_ERR_AUTH) << status.message();
  });
}

}  // namespace
}  // namespace roda::transport_test

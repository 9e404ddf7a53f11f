// Who is no member connects to every port that a group opens while it forms.
#include <gloo/transport/tcp/context.h>
#include <gloo/transport/tcp/device.h>
#include <gloo/transport/tcp/pair.h>
#include <gtest/gtest.h>
#include <malloc.h>
#include <sys/socket.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "plugins/base/local_address.h"
#include "plugins/base/socket.h"
#include "plugins/base/unique_fd.h"
#include "tests/transports/thread_ranks.h"
#include "transports/gloo/gloo.h"

namespace roda::transport_test {
namespace {

// The ports that this process listens on, whatever the address.
std::set<int> open_ports() {
  std::set<int> ports;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    const int fd = std::stoi(entry.path().filename().string());
    int listens = 0;
    socklen_t size = sizeof listens;
    if (::getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listens, &size) != 0 || listens == 0) continue;
    SocketAddress address;
    address.length = sizeof address.storage;
    if (::getsockname(fd, reinterpret_cast<sockaddr*>(&address.storage), &address.length) != 0) continue;
    ports.insert(address.port());
  }
  return ports;
}

// Connects to all of them until it is stopped, says what no member says on every second connection, and stays.
class Stranger {
 public:
  Stranger() : thread_([this] { run(); }) {}
  ~Stranger() {
    stops_ = true;
    thread_.join();
  }
  int connections() const { return connections_; }

 private:
  void run() {
    while (!stops_) {
      for (const int port : open_ports()) {
        SocketAddress address = loopback_addresses().front();
        address.set_port(port);
        UniqueFd fd;
        if (!tcp::connect_start(address, &fd).ok()) continue;
        const std::vector<std::uint8_t> noise(200, static_cast<std::uint8_t>(held_.size()));
        std::size_t count = 0;
        // Not yet connected, it says nothing: that is what half of them are for.
        if (held_.size() % 2 == 0) static_cast<void>(tcp::write_some(fd.get(), noise, &count));
        if (held_.size() == 500) held_.clear();
        held_.push_back(std::move(fd));
        ++connections_;
      }
      std::this_thread::yield();
    }
  }

  std::vector<UniqueFd> held_;
  std::atomic<bool> stops_{false};
  std::atomic<int> connections_{0};
  std::thread thread_;
};

// As many as a port for each pair would take, and no more: such a port is closed after the first.
constexpr int kVisits = 6;

// A board where nobody reads the others' addresses before the stranger has been at every port.
struct SlowBoard {
  static int32_t put(void* self, const char* key, const void* value, size_t bytes, roda_error* error) {
    return Board::put(&static_cast<SlowBoard*>(self)->seat, key, value, bytes, error);
  }
  static int32_t get(void* self, int32_t rank, const char* key, void* value, size_t* bytes, roda_error* error) {
    SlowBoard& board = *static_cast<SlowBoard*>(self);
    if (std::strstr(key, "address") != nullptr && board.stranger->connections() < kVisits) return RODA_IN_PROGRESS;
    return Board::get(&board.seat, rank, key, value, bytes, error);
  }

  Board::Seat seat;
  const Stranger* stranger;
};

// Our pairs are derived from Gloo's, by its headers or what stands in for them: what the library makes is as large.
TEST(GlooStrangers, PairsHaveTheSizeThatTheLibraryGivesThem) {
  ::gloo::transport::tcp::attr attributes;
  attributes.hostname = "127.0.0.1";
  const auto context = ::gloo::transport::tcp::CreateDevice(attributes)->createContext(0, 2);
  const std::size_t bytes = ::malloc_usable_size(dynamic_cast<void*>(context->createPair(1).get()));
  EXPECT_GE(bytes, sizeof(::gloo::transport::tcp::Pair));
  EXPECT_LE(bytes, sizeof(::gloo::transport::tcp::Pair) + 15);
}

TEST(GlooStrangers, KeepNoGroupFromForming) {
  for (int round = 0; round < 5; ++round) {
    Board board;
    const Stranger stranger;
    run_ranks(3, [&](int rank) {
      SlowBoard slow{{&board, rank}, &stranger};
      const roda_exchange exchange{sizeof exchange, 0, &slow, &SlowBoard::put, &SlowBoard::get};
      Member member(roda_gloo_transport(), board, rank, 3, {}, 0, &exchange);
      ASSERT_EQ(member.form(), RODA_OK) << member.text();
      std::vector<float> data(10'000, 1.0f);
      roda_request* request = nullptr;
      ASSERT_EQ(member.allreduce(data.data(), data.size(), 1, &request), RODA_OK) << member.text();
      ASSERT_EQ(member.wait(request), RODA_OK) << member.text();
      EXPECT_EQ(data.back(), 3.0f);
      EXPECT_GE(stranger.connections(), kVisits);
    });
  }
}

}  // namespace
}  // namespace roda::transport_test

// Bare sockets, busy-polled as the transport polls them: what there is to reach.
#include <poll.h>
#include <sys/socket.h>

#include <cerrno>
#include <chrono>
#include <cstdint>
#include <span>

#include "plugins/base/socket.h"
#include "transports/tcp/bench/contestant.h"

namespace roda::tcp_bench {

namespace {

void expect(const Status& status) {
  if (!status.ok()) give_up("bare sockets: " + status.message());
}

class Raw final : public Contestant {
 public:
  explicit Raw(UniqueFd fd) : fd_(std::move(fd)) { expect(tcp::set_options(fd_.get(), std::chrono::seconds(30))); }
  void send(const char* data, std::size_t bytes) override { move(data, bytes, nullptr, 0); }
  void receive(char* data, std::size_t bytes) override { move(nullptr, 0, data, bytes); }
  void swap(const char* out, char* in, std::size_t bytes) override { move(out, bytes, in, bytes); }

 private:
  void move(const char* out, std::size_t to_send, char* in, std::size_t to_receive) {
    while (to_send > 0 || to_receive > 0) {
      std::size_t count = 0;
      bool end = false;
      if (to_send > 0) {
        expect(tcp::write_some(fd_.get(), {reinterpret_cast<const std::uint8_t*>(out), to_send}, &count));
        out += count;
        to_send -= count;
      }
      if (to_receive == 0) continue;
      expect(tcp::read_some(fd_.get(), {reinterpret_cast<std::uint8_t*>(in), to_receive}, &count, &end));
      if (end) give_up("bare sockets: the other end is gone");
      in += count;
      to_receive -= count;
    }
  }

  UniqueFd fd_;
};

}  // namespace

std::unique_ptr<Contestant> make_raw(Board& board, int rank, const std::string& address) {
  std::vector<SocketAddress> addresses;
  expect(resolve(address, 0, &addresses));
  UniqueFd connection;
  if (rank == 0) {
    UniqueFd listener;
    SocketAddress bound;
    expect(tcp::listen_on(addresses.front(), &listener, &bound));
    board.port.store(bound.port());
    while (!connection) expect(tcp::accept_one(listener.get(), &connection, &bound));
  } else {
    while (board.port.load() == 0) {
    }
    addresses.front().set_port(board.port.load());
    expect(tcp::connect_start(addresses.front(), &connection));
    for (bool connected = false; !connected;) expect(tcp::connect_test(connection.get(), &connected));
  }
  return std::make_unique<Raw>(std::move(connection));
}

}  // namespace roda::tcp_bench

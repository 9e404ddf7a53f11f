// No collective at all: bare TCP sockets that carry, in both directions at once, what an allreduce by levels sends
// between two hosts, the size of the tensor each way. Nothing is added up. What a network allows, on these processors.
//
// With PEER_WORK, besides, and without any order between the two: the passes over memory that the ranks of a host, one
// for each connection, can't do without. A bound for every implementation on the same processors.
//
// Two processes, one on each host, with PEER_RANK, PEER_STORE (an empty folder that both see), PEER_ADDRESS (rank 0's)
// and PEER_LANES (connections; 2) in the environment.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "tools/perf/peers/peer.h"

namespace {

constexpr std::size_t kPiece = 256 << 10;

[[noreturn]] void end(const char* what) {
  std::fprintf(stderr, "%s: %s\n", what, std::strerror(errno));
  std::exit(1);
}

int checked(int result, const char* what) {
  if (result < 0) end(what);
  return result;
}

sockaddr_in address_of(const char* host, int port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<std::uint16_t>(port));
  if (::inet_pton(AF_INET, host, &address.sin_addr) != 1) end("PEER_ADDRESS");
  return address;
}

// The store holds the port; it appears under its name when it is complete.
std::vector<int> accept_all(const char* host, const std::filesystem::path& store, int lanes) {
  sockaddr_in address = address_of(host, 0);
  socklen_t length = sizeof address;
  const int listener = checked(::socket(AF_INET, SOCK_STREAM, 0), "socket");
  checked(::bind(listener, reinterpret_cast<sockaddr*>(&address), sizeof address), "bind");
  checked(::listen(listener, lanes), "listen");
  checked(::getsockname(listener, reinterpret_cast<sockaddr*>(&address), &length), "getsockname");
  std::ofstream(store / "port.new") << ntohs(address.sin_port);
  std::filesystem::rename(store / "port.new", store / "port");
  std::vector<int> sockets;
  for (int i = 0; i < lanes; ++i) sockets.push_back(checked(::accept(listener, nullptr, nullptr), "accept"));
  ::close(listener);
  return sockets;
}

std::vector<int> connect_all(const char* host, const std::filesystem::path& store, int lanes) {
  while (!std::filesystem::exists(store / "port")) ::usleep(10'000);
  int port = 0;
  std::ifstream(store / "port") >> port;
  const sockaddr_in address = address_of(host, port);
  std::vector<int> sockets;
  for (int i = 0; i < lanes; ++i) {
    sockets.push_back(checked(::socket(AF_INET, SOCK_STREAM, 0), "socket"));
    checked(::connect(sockets.back(), reinterpret_cast<const sockaddr*>(&address), sizeof address), "connect");
  }
  return sockets;
}

template <typename Move>
void move_all(const char* what, std::size_t bytes, Move&& move) {
  for (std::size_t done = 0; done < bytes;) {
    const ssize_t moved = move(done, std::min(bytes - done, kPiece));
    if (moved <= 0) end(what);
    done += static_cast<std::size_t>(moved);
  }
}

// What one of `ranks` on a host does with its tensor of `bytes`: its share is summed up over the host's ranks, half of
// that with the other host's, and the other shares are taken over.
void pass_over(const float* mine, const float* theirs, float* sum, std::size_t bytes, std::size_t ranks) {
  const std::size_t share = bytes / sizeof(float) / ranks;
  const auto add = [&](const float* from, std::size_t count) {
    for (std::size_t i = 0; i < count; ++i) sum[i] = mine[i] + from[i];
  };
  for (std::size_t other = 1; other < ranks; ++other) add(theirs, share);
  add(theirs, share / 2);
  if (ranks > 1) std::memcpy(sum + share, theirs + share, (ranks - 1) * share * sizeof(float));
}

class Work {
 public:
  explicit Work(std::size_t ranks) : ranks_(ranks), mine_(ranks), sums_(ranks) {}

  void start(const char* tensor, std::size_t bytes, std::vector<std::thread>* threads) {
    for (std::size_t rank = 0; rank < ranks_; ++rank) {
      mine_[rank].resize(bytes / sizeof(float));
      sums_[rank].resize(bytes / sizeof(float));
      threads->emplace_back([=, this] {
        pass_over(mine_[rank].data(), reinterpret_cast<const float*>(tensor), sums_[rank].data(), bytes, ranks_);
      });
    }
  }

 private:
  std::size_t ranks_;
  std::vector<std::vector<float>> mine_, sums_;  // [rank]
};

// Each connection sends its share and receives as much, on threads of their own.
void exchange(const std::vector<int>& sockets, const char* out, char* in, std::size_t bytes, Work* work) {
  const std::size_t share = bytes / sockets.size();
  std::vector<std::thread> threads;
  if (work != nullptr) work->start(out, bytes, &threads);
  for (std::size_t i = 0; i < sockets.size(); ++i) {
    const std::size_t first = i * share, count = i + 1 == sockets.size() ? bytes - first : share;
    threads.emplace_back([=, socket = sockets[i]] {
      move_all("send", count, [&](std::size_t at, std::size_t n) { return ::send(socket, out + first + at, n, 0); });
    });
    threads.emplace_back([=, socket = sockets[i]] {
      move_all("recv", count, [&](std::size_t at, std::size_t n) { return ::recv(socket, in + first + at, n, 0); });
    });
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace

int main(int argc, char** argv) {
  const char* rank_text = std::getenv("PEER_RANK");
  const char* store = std::getenv("PEER_STORE");
  const char* host = std::getenv("PEER_ADDRESS");
  if (rank_text == nullptr || store == nullptr || host == nullptr) {
    std::fprintf(stderr, "PEER_RANK, PEER_STORE and PEER_ADDRESS must be set\n");
    return 2;
  }
  const char* lanes_text = std::getenv("PEER_LANES");
  const int rank = std::atoi(rank_text), lanes = lanes_text == nullptr ? 2 : std::max(1, std::atoi(lanes_text));
  const roda::peers::Request request = roda::peers::parse_request(argc, argv);
  const std::vector<int> sockets = rank == 0 ? accept_all(host, store, lanes) : connect_all(host, store, lanes);
  const int on = 1;
  for (const int socket : sockets) ::setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  std::vector<char> in;
  Work work(sockets.size());
  Work* const wanted = std::getenv("PEER_WORK") != nullptr ? &work : nullptr;
  const auto run = [&](float* data, std::size_t count) {
    in.resize(count * sizeof(float));
    exchange(sockets, reinterpret_cast<const char*>(data), in.data(), in.size(), wanted);
  };
  return roda::peers::measure(wanted != nullptr ? "sockets+work" : "sockets", request, rank, 2, run,
                              roda::peers::Result::kNone);
}

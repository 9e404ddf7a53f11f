// The connections between hosts of a simulated machine. Both ends are real descriptors, for epoll's sake; between them
// bytes travel when the seed says so: late, in pieces, each direction in its order. Buffers are of the kernel's, and so
// fill as they do there; small ones are drawn.
#pragma once

#include <netinet/in.h>
#include <sys/socket.h>

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <vector>

#include "plugins/base/unique_fd.h"

namespace roda::seeds {

class Machine;

class Network {
 public:
  explicit Network(Machine& machine) : machine_(machine) {}
  ~Network();
  Network(const Network&) = delete;
  Network& operator=(const Network&) = delete;

  // --- the system's calls, of descriptors that has() is true of; errno says why one failed ---
  bool has(int fd) const { return find(fd) != nullptr; }
  int socket();
  int bind(int fd, const sockaddr_in& address);
  int listen(int fd);
  int accept(int fd, sockaddr* peer, socklen_t* length);
  int connect(int fd, const sockaddr_in& address);
  int name(int fd, bool of_peer, sockaddr* address, socklen_t* length) const;
  // Something was written to the descriptor, or it was shut down or closed.
  void touched(int fd);
  // Nothing is there to be read: no bytes, no end.
  bool is_empty(int fd) const;
  void took(int fd, std::size_t bytes);
  void forget(int fd);
  // One of the connections breaks: the ranks at its ends. None: there is none.
  std::vector<int> break_one();

 private:
  struct Stream;
  struct Socket {
    std::uint16_t port = 0, peer_port = 0;
    std::shared_ptr<Stream> stream;
    int side = 0;  // of the stream
    int rank = -1;
  };
  struct Listener {
    int bell;
    struct Caller {
      UniqueFd fd;
      std::uint16_t port;
      std::shared_ptr<Stream> stream;
    };
    std::deque<Caller> callers;
  };
  Socket* find(int fd) {
    return fd >= 0 && static_cast<std::size_t>(fd) < sockets_.size() ? sockets_[static_cast<std::size_t>(fd)].get()
                                                                     : nullptr;
  }
  const Socket* find(int fd) const { return const_cast<Network*>(this)->find(fd); }
  void add(int fd, Socket socket);
  void wake(const std::shared_ptr<Stream>& stream, int side);
  void carry(const std::shared_ptr<Stream>& stream, int side);

  Machine& machine_;
  std::vector<std::unique_ptr<Socket>> sockets_;  // by descriptor
  std::map<std::uint16_t, Listener> listeners_;
  std::uint16_t next_port_ = 1024;
};

}  // namespace roda::seeds

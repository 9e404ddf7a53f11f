#include "transports/ucx/sockets.h"

#include <fstream>
#include <string>

#include "plugins/base/foreign_sockets.h"

namespace roda::ucx {
namespace {

// Sets of sets are two levels deep in UCX.
constexpr int kDepth = 3;

void collect(int event_fd, int depth, std::vector<int>* sockets) {
  std::ifstream info("/proc/self/fdinfo/" + std::to_string(event_fd));
  for (std::string line; std::getline(info, line);) {
    if (line.rfind("tfd:", 0) != 0) continue;
    const int fd = std::stoi(line.substr(4));
    if (socket_inode(fd) != 0) {
      sockets->push_back(fd);
    } else if (depth > 0) {
      collect(fd, depth - 1, sockets);
    }
  }
}

}  // namespace

std::vector<int> sockets_of(int event_fd) {
  std::vector<int> sockets;
  collect(event_fd, kDepth, &sockets);
  return sockets;
}

}  // namespace roda::ucx

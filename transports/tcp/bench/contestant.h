// One end of a pair that moves messages: a transport's plugin, or bare sockets.
#pragma once

#include <cstddef>
#include <memory>
#include <string>

#include "transports/tcp/bench/board.h"

namespace roda::tcp_bench {

// Blocking, one thread. Ends the process with a message when something fails.
class Contestant {
 public:
  virtual ~Contestant() = default;
  virtual void send(const char* data, std::size_t bytes) = 0;
  virtual void receive(char* data, std::size_t bytes) = 0;
  // Both ends at once.
  virtual void swap(const char* out, char* in, std::size_t bytes) = 0;
};

// `address`: of rank 0, for rank 1 to connect to.
std::unique_ptr<Contestant> make_raw(Board& board, int rank, const std::string& address);
// `path`: of the shared object. `name`: tells groups apart.
std::unique_ptr<Contestant> make_plugin(Board& board, int rank, const std::string& path, const std::string& name);

[[noreturn]] void give_up(const std::string& why);

}  // namespace roda::tcp_bench

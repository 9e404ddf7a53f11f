// Compiles where the device listens for all of Gloo's pairs, and each takes a socket.
#include <gloo/transport/tcp/pair.h>
#include <gloo/transport/tcp/socket.h>

struct Pair : gloo::transport::tcp::Pair {
  using gloo::transport::tcp::Pair::Pair;
  void take(int fd) { connectCallback(std::make_shared<gloo::transport::tcp::Socket>(fd), {}); }
};

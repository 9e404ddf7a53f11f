// Compiles where each of Gloo's pairs listens until it is stopped.
#include <gloo/transport/tcp/pair.h>

struct Pair : gloo::transport::tcp::Pair {
  using gloo::transport::tcp::Pair::Pair;
  void take(int fd) {
    fd_ = fd;
    state_ = LISTENING;
    self_ = peer_;
    handleConnected();
    handleListening();
  }
};

// Compiles where Gloo keeps counts of completions under the names that transports/gloo/link.cc knows.
#include <gloo/transport/tcp/unbound_buffer.h>

struct Counters : gloo::transport::tcp::UnboundBuffer {
  static constexpr auto kSent = &Counters::sendCompletions_, kReceived = &Counters::recvCompletions_;
};

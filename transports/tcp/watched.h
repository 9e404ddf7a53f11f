// Whatever has a descriptor that the context watches.
#pragma once

#include <cstdint>

namespace roda::tcp_transport {

class Watched {
 public:
  // `events` are epoll's. Only notes what happened: the work is done by progress().
  virtual void on_event(std::uint32_t events) = 0;

 protected:
  Watched() = default;
  ~Watched() = default;
  Watched(const Watched&) = delete;
  Watched& operator=(const Watched&) = delete;
};

}  // namespace roda::tcp_transport

// The addresses of this host's own name, asked for on a thread: a name service that does not answer takes seconds.
#pragma once

#include <atomic>
#include <thread>
#include <vector>

#include "plugins/base/address.h"

namespace roda::tcp_transport {

// One thread at a time.
class NameLookup {
 public:
  NameLookup() = default;
  // Waits for the name service if it is being asked.
  ~NameLookup();
  NameLookup(const NameLookup&) = delete;
  NameLookup& operator=(const NameLookup&) = delete;

  // The first call starts it.
  bool finished();
  // Once finished. Empty if the name does not resolve.
  const std::vector<SocketAddress>& addresses() const { return addresses_; }

 private:
  std::thread thread_;
  std::atomic<bool> is_finished_{false};
  std::vector<SocketAddress> addresses_;  // the thread's until is_finished_
};

}  // namespace roda::tcp_transport

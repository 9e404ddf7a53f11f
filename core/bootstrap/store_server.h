// The rendezvous: a key-value server that a launcher runs beside its job.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <thread>

#include "plugins/base/address.h"
#include "plugins/base/secret.h"
#include "plugins/base/status.h"

namespace roda {

struct StoreServerOptions {
  std::size_t max_bytes = 64 << 20;   // of all keys, values and waiters together
  std::size_t max_strangers = 1024;   // connections that have proved nothing yet; the oldest gives way
  std::size_t max_queued = 64 << 20;  // answers that one client has not read
  std::chrono::milliseconds handshake_timeout{10'000};  // then a stranger is dropped
};

// One thread of its own. A get is answered when the key appears, or by the failure of a rank that was to put it: one
// that entered a scope (store.h), and whose connection ends before it has left. Whoever can't prove the secret is
// dropped and logged with address and reason; nobody's garbage disturbs the others. start, stop and the destructor: one
// thread at a time.
class StoreServer {
 public:
  // Port 0: any free one.
  static Status start(const SocketAddress& address, const Secret& secret, const StoreServerOptions& options,
                      std::unique_ptr<StoreServer>* server);
  ~StoreServer();  // stops
  StoreServer(const StoreServer&) = delete;
  StoreServer& operator=(const StoreServer&) = delete;

  const SocketAddress& address() const { return address_; }
  // So far. Any thread.
  struct Traffic {
    std::uint64_t clients = 0;   // that proved the secret
    std::uint64_t requests = 0;  // answered or carried out
    std::uint64_t answers = 0;
    std::uint64_t values = 0;  // put or given
    std::uint64_t bytes = 0;   // of requests and answers
  };
  Traffic traffic() const;
  // Nobody meets in that scope (store.h) any more: what is there goes, what still comes is dropped, and whoever asks
  // there gets `reason` as the error. Any thread.
  void retire(const std::string& scope, const Status& reason);
  // Ends the thread and closes every connection. Idempotent.
  void stop();

 private:
  class Loop;

  StoreServer(const SocketAddress& address, std::unique_ptr<Loop> loop);

  SocketAddress address_;
  std::unique_ptr<Loop> loop_;
  std::thread thread_;
};

}  // namespace roda

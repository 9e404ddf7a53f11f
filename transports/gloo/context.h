// One process's use of Gloo: settings, the doorbell, and the devices that its groups share.
#pragma once

#include <gloo/transport/device.h>
#include <roda/abi/transport.h>
#include <roda/sdk/doorbell.hpp>

#include <array>
#include <atomic>
#include <chrono>
#include <memory>
#include <mutex>
#include <string>

#include "transports/gloo/collectives.h"
#include "transports/gloo/device.h"

namespace roda::gloo {

// notify() and device() from any thread, the rest from the context's caller.
class Context {
 public:
  explicit Context(const roda_host* host);

  const roda_host* host() const { return host_; }
  // The device for a group, made when first asked for.
  std::shared_ptr<::gloo::transport::Device> device(Reach reach);
  // HOROVOD_GLOO_TIMEOUT_SECONDS if set, else what the group was given, else 30 s.
  std::chrono::milliseconds timeout(std::uint64_t group_timeout_ns) const;

  // Something ended, or a step of a group's forming is done.
  void notify() {
    events_.fetch_add(1);
    doorbell_.ring();
  }

  // The entries of the ABI.
  int progress() { return events_.exchange(0); }
  int event_fd() const { return doorbell_.fd(); }
  bool arm() {
    doorbell_.arm();
    return true;
  }
  void disarm() { doorbell_.disarm(); }
  static bool collective_supported(int collective, int dtype, int op, int memory_kind) {
    return memory_kind == RODA_MEMORY_HOST && is_supported(collective, dtype, op);
  }

 private:
  const roda_host* const host_;
  std::string interfaces_;
  std::chrono::milliseconds timeout_{0};
  sdk::Doorbell doorbell_;
  std::atomic<int> events_{0};
  std::mutex mutex_;
  std::array<std::shared_ptr<::gloo::transport::Device>, 2> devices_;
};

}  // namespace roda::gloo

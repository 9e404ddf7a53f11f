// One process's use of Gloo: settings, the doorbell, and the devices that its groups share.
#pragma once

#include <gloo/transport/device.h>
#include <roda/abi/transport.h>

#include <array>
#include <atomic>
#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "plugins/base/mutex.h"
#include "transports/gloo/collectives.h"
#include "transports/gloo/device.h"
#include "transports/gloo/wakeups.h"

namespace roda::gloo {

// What the context moves on and prepares for sleep: a group.
class Pumped {
 public:
  // Moves messages on; returns how many things ended or came. Sets `*data_came` if anything was there to be read.
  virtual int pump(bool* data_came) = 0;
  // Sees to it that data for pending messages wake the sleeper, and only those. True when there are pending ones.
  // `*rest` becomes earlier when data need nobody before then.
  virtual bool prepare_sleep(Wakeups& wakeups, std::optional<std::chrono::steady_clock::time_point>* rest) = 0;

 protected:
  ~Pumped() = default;
};

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
    wakeups_.ring();
  }

  void add(Pumped* group) { groups_.push_back(group); }
  void remove(Pumped* group);
  Wakeups& wakeups() { return wakeups_; }

  // The entries of the ABI.
  int progress() { return events_.exchange(0) + pump(); }
  int event_fd() const { return wakeups_.fd(); }
  bool arm();
  void disarm() { wakeups_.disarm(); }
  static bool collective_supported(int collective, int dtype, int op, int memory_kind) {
    return memory_kind == RODA_MEMORY_HOST && is_supported(collective, dtype, op);
  }

 private:
  int pump();

  const roda_host* const host_;
  std::string interfaces_;
  std::chrono::milliseconds timeout_{0};
  Wakeups wakeups_;
  std::vector<Pumped*> groups_;
  bool has_moved_ = false;  // since the last sleep
  bool data_came_ = false;  // since the last arm()
  std::atomic<int> events_{0};
  Mutex mutex_;
  std::array<std::shared_ptr<::gloo::transport::Device>, 2> devices_ RODA_GUARDED_BY(mutex_);
};

}  // namespace roda::gloo

#include "transports/gloo/context.h"

#include <gloo/config.h>
#include <gloo/transport/tcp/device.h>
#include <roda/sdk/settings.hpp>
#include <roda/sdk/transport.hpp>

#include "plugins/base/helper_thread.h"
#include "plugins/base/local_address.h"
#include "transports/gloo/gloo.h"
#include "transports/gloo/group.h"

namespace roda::gloo {
namespace {

// While it lives, threads that this one starts do not preempt others by waking up. Gloo's loop thread would otherwise
// push aside the thread that is just writing to a pair, find the pair's lock taken, and spin on it for a whole time
// slice: with as many ranks as cores a small allreduce took milliseconds.
class WakesPolitely {
 public:
  WakesPolitely() : changed_(sched_getscheduler(0) == SCHED_OTHER && set(SCHED_BATCH)) {}
  ~WakesPolitely() {
    if (changed_) set(SCHED_OTHER);
  }
  WakesPolitely(const WakesPolitely&) = delete;
  WakesPolitely& operator=(const WakesPolitely&) = delete;

 private:
  static bool set(int policy) {
    const sched_param none{};
    return sched_setscheduler(0, policy, &none) == 0;
  }
  bool changed_;
};

using Device = std::shared_ptr<::gloo::transport::Device>;

// Null, with the reason appended, when Gloo refuses. It is always given a numeric address: its own look-up of
// interfaces leaks what it found.
Device try_create(const SocketAddress& address, std::string* reasons) {
  const SignalsBlocked blocked;  // the device starts its loop thread
  const WakesPolitely polite;
  try {
    ::gloo::transport::tcp::attr attributes;
    attributes.hostname = address.host();
    return ::gloo::transport::tcp::CreateDevice(attributes);
  } catch (const std::exception& refused) {
    *reasons += (reasons->empty() ? "" : "; ") + address.host() + ": " + refused.what();
    return nullptr;
  }
}

constexpr std::chrono::seconds kDefaultTimeout{30};

#define RODA_GLOO_TEXT_OF(value) #value
#define RODA_GLOO_TEXT(value) RODA_GLOO_TEXT_OF(value)

// No probe: the library is linked, so if the plugin loads it was found. Addresses are looked for when a group forms.
constexpr std::uint64_t kCapabilities = RODA_CAP_P2P | RODA_CAP_NATIVE | RODA_CAP_FAULT_TOLERANT;
constexpr roda_transport kTransport = sdk::transport<Context, Group, kCapabilities>(
    "gloo",
    "Gloo " RODA_GLOO_TEXT(GLOO_VERSION_MAJOR) "." RODA_GLOO_TEXT(GLOO_VERSION_MINOR) "." RODA_GLOO_TEXT(
        GLOO_VERSION_PATCH) " over TCP",
    RODA_PROGRESS_FD);

}  // namespace

Device make_device(const std::string& interfaces, Reach reach, const std::string& known) {
  const std::vector<SocketAddress> candidates = !interfaces.empty()     ? addresses_of_interfaces(interfaces)
                                                : reach == Reach::kHost ? loopback_addresses()
                                                                        : network_addresses(known);
  std::string reasons;
  for (const SocketAddress& address : candidates) {
    if (Device device = try_create(address, &reasons)) return device;
  }
  const std::string why = reasons.empty() ? "" : " (" + reasons + ")";
  if (interfaces.empty()) throw sdk::Failure(RODA_ERR_UNAVAILABLE, "no address to listen on" + why);
  throw sdk::Failure(RODA_ERR_UNAVAILABLE, "HOROVOD_GLOO_IFACE=" + interfaces + " names no usable interface" + why +
                                               ". Interfaces that are up: " + interfaces_up());
}

std::chrono::milliseconds Context::timeout(std::uint64_t group_timeout_ns) const {
  using std::chrono::milliseconds;
  if (timeout_ > milliseconds(0)) return timeout_;
  if (group_timeout_ns == 0) return kDefaultTimeout;
  const auto given = std::chrono::duration_cast<milliseconds>(std::chrono::nanoseconds(group_timeout_ns));
  return std::max(given, milliseconds(1));
}

int Context::pump() {
  int moved = 0;
  for (Group* group : groups_) moved += group->pump(&data_came_);
  has_moved_ |= moved > 0;
  return moved;
}

bool Context::arm() {
  wakeups_.arm();
  bool awaits_messages = false;
  std::optional<std::chrono::steady_clock::time_point> rest;
  for (Group* group : groups_) awaits_messages |= group->prepare_sleep(wakeups_, &rest);
  if (!awaits_messages) {
    wakeups_.stop_ticking();
    return true;
  }
  // What came before the sockets were watched, or was still being handled when they were last looked at.
  if (const int moved = pump(); moved > 0) {
    events_.fetch_add(moved);
    return false;
  }
  // In the middle of a message: more is on its way.
  if (std::exchange(data_came_, false)) {
    ::sched_yield();
    return false;
  }
  rest.has_value() ? wakeups_.tick_at(*rest) : wakeups_.tick(has_moved_);
  has_moved_ = false;
  return true;
}

}  // namespace roda::gloo

const roda_transport* roda_gloo_transport() { return &roda::gloo::kTransport; }

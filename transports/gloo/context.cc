#include "transports/gloo/context.h"

#include <sched.h>
#include <roda/sdk/settings.hpp>

#include <algorithm>
#include <cstdint>
#include <utility>

namespace roda::gloo {
namespace {

constexpr std::chrono::seconds kDefaultTimeout{30};

}  // namespace

Context::Context(const roda_host* host) : host_(host) {
  if (const char* interfaces = sdk::knob(host, "HOROVOD_GLOO_IFACE")) interfaces_ = interfaces;
  constexpr const char* kLimit = "HOROVOD_GLOO_TIMEOUT_SECONDS";
  if (const char* text = sdk::knob(host, kLimit)) {
    timeout_ = std::chrono::seconds(sdk::parse_number(kLimit, text, 1, INT32_MAX));
  }
}

std::shared_ptr<::gloo::transport::Device> Context::device(Reach reach) {
  const MutexLock lock(mutex_);
  auto& device = devices_[reach == Reach::kHost ? 0 : 1];
  if (device == nullptr) device = make_device(interfaces_, reach);
  return device;
}

std::chrono::milliseconds Context::timeout(std::uint64_t group_timeout_ns) const {
  using std::chrono::milliseconds;
  if (timeout_ > milliseconds(0)) return timeout_;
  if (group_timeout_ns == 0) return kDefaultTimeout;
  const auto given = std::chrono::duration_cast<milliseconds>(std::chrono::nanoseconds(group_timeout_ns));
  return std::max(given, milliseconds(1));
}

void Context::remove(Pumped* group) { std::erase(groups_, group); }

int Context::pump() {
  int moved = 0;
  for (Pumped* group : groups_) moved += group->pump(&data_came_);
  has_moved_ |= moved > 0;
  return moved;
}

bool Context::arm() {
  wakeups_.arm();
  bool awaits_messages = false;
  std::optional<std::chrono::steady_clock::time_point> rest;
  for (Pumped* group : groups_) awaits_messages |= group->prepare_sleep(wakeups_, &rest);
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

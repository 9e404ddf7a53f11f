#include "transports/gloo/device.h"

#include <gloo/transport/tcp/device.h>
#include <roda/sdk/error.hpp>

#include <vector>

#include "plugins/base/local_address.h"
#include "transports/gloo/thread.h"

namespace roda::gloo {
namespace {

using Device = std::shared_ptr<::gloo::transport::Device>;

// Addresses to try, the best first.
std::vector<SocketAddress> candidates(Reach reach) {
  return reach == Reach::kHost ? loopback_addresses() : network_addresses(own_name_addresses());
}

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

Device named_device(const std::string& interfaces) {
  std::string reasons;
  for (const SocketAddress& address : addresses_of_interfaces(interfaces)) {
    if (Device device = try_create(address, &reasons)) return device;
  }
  throw sdk::Failure(RODA_ERR_UNAVAILABLE, "HOROVOD_GLOO_IFACE=" + interfaces + " names no usable interface" +
                                               (reasons.empty() ? "" : " (" + reasons + ")") +
                                               ". Interfaces that are up: " + interfaces_up());
}

}  // namespace

Device make_device(const std::string& interfaces, Reach reach) {
  if (!interfaces.empty()) return named_device(interfaces);
  std::string reasons;
  for (const SocketAddress& address : candidates(reach)) {
    if (Device device = try_create(address, &reasons)) return device;
  }
  throw sdk::Failure(RODA_ERR_UNAVAILABLE, "no address to listen on (" + reasons + ")");
}

}  // namespace roda::gloo

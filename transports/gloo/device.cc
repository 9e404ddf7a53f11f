#include "transports/gloo/device.h"

#include <gloo/transport/tcp/device.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <unistd.h>
#include <roda/sdk/error.hpp>

#include <algorithm>
#include <array>
#include <climits>
#include <fstream>
#include <sstream>
#include <vector>

#include "transports/gloo/thread.h"

namespace roda::gloo {
namespace {

using Device = std::shared_ptr<::gloo::transport::Device>;

struct LocalAddress {
  std::string interface;
  std::string text;
  bool is_loopback = false;
  bool is_ipv6 = false;
};

std::string numeric(const sockaddr* address) {
  const socklen_t length = address->sa_family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6);
  std::array<char, NI_MAXHOST> text{};
  if (::getnameinfo(address, length, text.data(), text.size(), nullptr, 0, NI_NUMERICHOST) != 0) return {};
  return text.data();
}

// Addresses of interfaces that are up, IPv4 before IPv6; link-local ones are left out, they need a scope to connect to.
std::vector<LocalAddress> local_addresses() {
  std::vector<LocalAddress> found;
  ifaddrs* list = nullptr;
  if (::getifaddrs(&list) != 0) return found;
  for (const ifaddrs* at = list; at != nullptr; at = at->ifa_next) {
    if (at->ifa_addr == nullptr || (at->ifa_flags & IFF_UP) == 0) continue;
    const int family = at->ifa_addr->sa_family;
    if (family != AF_INET && family != AF_INET6) continue;
    const auto* ipv6 = reinterpret_cast<const sockaddr_in6*>(at->ifa_addr);
    if (family == AF_INET6 && IN6_IS_ADDR_LINKLOCAL(&ipv6->sin6_addr)) continue;
    found.push_back({at->ifa_name, numeric(at->ifa_addr), (at->ifa_flags & IFF_LOOPBACK) != 0, family == AF_INET6});
  }
  ::freeifaddrs(list);
  std::stable_partition(found.begin(), found.end(), [](const LocalAddress& a) { return !a.is_ipv6; });
  return found;
}

// What the host's name resolves to; empty if it does not resolve.
std::vector<std::string> name_addresses() {
  std::array<char, HOST_NAME_MAX + 1> name{};
  std::vector<std::string> found;
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* list = nullptr;
  if (::gethostname(name.data(), name.size() - 1) != 0) return found;
  if (::getaddrinfo(name.data(), nullptr, &hints, &list) != 0) return found;
  for (const addrinfo* at = list; at != nullptr; at = at->ai_next) found.push_back(numeric(at->ai_addr));
  ::freeaddrinfo(list);
  return found;
}

// Addresses to try, the best first.
std::vector<std::string> candidates(Reach reach) {
  if (reach == Reach::kHost) return {"127.0.0.1", "::1"};
  const std::vector<LocalAddress> local = local_addresses();
  std::vector<std::string> list;
  for (const std::string& text : name_addresses()) {
    const bool usable = std::any_of(local.begin(), local.end(),
                                    [&](const LocalAddress& a) { return a.text == text && !a.is_loopback; });
    if (usable) list.push_back(text);
  }
  for (const LocalAddress& address : local) {
    if (!address.is_loopback) list.push_back(address.text);
  }
  list.insert(list.end(), {"127.0.0.1", "::1"});
  return list;
}

std::string interfaces_up() {
  std::string names;
  for (const LocalAddress& address : local_addresses()) {
    names += (names.empty() ? "" : ", ") + address.interface + " (" + address.text + ")";
  }
  return names.empty() ? "none" : names;
}

// Null, with the reason appended, when Gloo refuses. It is always given a numeric address: its own look-up of
// interfaces leaks what it found.
Device try_create(const std::string& address, std::string* reasons) {
  const SignalsBlocked blocked;  // the device starts its loop thread
  const WakesPolitely polite;
  try {
    ::gloo::transport::tcp::attr attributes;
    attributes.hostname = address;
    return ::gloo::transport::tcp::CreateDevice(attributes);
  } catch (const std::exception& refused) {
    *reasons += (reasons->empty() ? "" : "; ") + address + ": " + refused.what();
    return nullptr;
  }
}

Device named_device(const std::string& interfaces) {
  std::string reasons;
  std::istringstream names(interfaces);
  for (std::string name; std::getline(names, name, ',');) {
    for (const LocalAddress& address : local_addresses()) {
      if (address.interface != name) continue;
      if (Device device = try_create(address.text, &reasons)) return device;
    }
  }
  throw sdk::Failure(RODA_ERR_UNAVAILABLE, "HOROVOD_GLOO_IFACE=" + interfaces + " names no usable interface" +
                                               (reasons.empty() ? "" : " (" + reasons + ")") +
                                               ". Interfaces that are up: " + interfaces_up());
}

std::string first_line(const char* path) {
  std::string line;
  std::getline(std::ifstream(path), line);
  return line;
}

}  // namespace

std::string loopback_identity() {
  std::array<char, 64> net_namespace{};
  const ssize_t length = ::readlink("/proc/self/ns/net", net_namespace.data(), net_namespace.size());
  return first_line("/proc/sys/kernel/random/boot_id") + " " +
         std::string(net_namespace.data(), length > 0 ? static_cast<std::size_t>(length) : 0);
}

Device make_device(const std::string& interfaces, Reach reach) {
  if (!interfaces.empty()) return named_device(interfaces);
  std::string reasons;
  for (const std::string& address : candidates(reach)) {
    if (Device device = try_create(address, &reasons)) return device;
  }
  throw sdk::Failure(RODA_ERR_UNAVAILABLE, "no address to listen on (" + reasons + ")");
}

}  // namespace roda::gloo

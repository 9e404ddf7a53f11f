#include "plugins/base/address.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <ranges>
#include <sstream>

#include "plugins/base/format.h"

namespace roda {

namespace {

SocketAddress from_sockaddr(const sockaddr* address) {
  SocketAddress result;
  result.length = address->sa_family == AF_INET6 ? sizeof(sockaddr_in6) : sizeof(sockaddr_in);
  std::memcpy(&result.storage, address, result.length);
  return result;
}

}  // namespace

int SocketAddress::port() const {
  if (family() == AF_INET) return ntohs(reinterpret_cast<const sockaddr_in*>(&storage)->sin_port);
  if (family() == AF_INET6) return ntohs(reinterpret_cast<const sockaddr_in6*>(&storage)->sin6_port);
  return -1;
}

void SocketAddress::set_port(int port) {
  auto value = htons(static_cast<std::uint16_t>(port));
  if (family() == AF_INET) reinterpret_cast<sockaddr_in*>(&storage)->sin_port = value;
  if (family() == AF_INET6) reinterpret_cast<sockaddr_in6*>(&storage)->sin6_port = value;
}

bool SocketAddress::is_loopback() const {
  if (family() == AF_INET) {
    return ntohl(reinterpret_cast<const sockaddr_in*>(&storage)->sin_addr.s_addr) >> 24 == 127;
  }
  return family() == AF_INET6 && IN6_IS_ADDR_LOOPBACK(&reinterpret_cast<const sockaddr_in6*>(&storage)->sin6_addr);
}

bool SocketAddress::is_link_local() const {
  return family() == AF_INET6 && IN6_IS_ADDR_LINKLOCAL(&reinterpret_cast<const sockaddr_in6*>(&storage)->sin6_addr);
}

std::string SocketAddress::host() const {
  char text[NI_MAXHOST] = "";
  if (getnameinfo(get(), length, text, sizeof text, nullptr, 0, NI_NUMERICHOST) != 0) return "?";
  return text;
}

std::string SocketAddress::text() const {
  return family() == AF_INET6 ? roda::format("[{}]:{}", host(), port()) : roda::format("{}:{}", host(), port());
}

Status resolve(const std::string& host, int port, std::vector<SocketAddress>* addresses) {
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_NUMERICSERV;
  addrinfo* found = nullptr;
  int code = getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &found);
  if (code != 0) return Status::invalid(roda::format("no address for host '{}': {}", host, gai_strerror(code)));
  std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> owner(found, freeaddrinfo);
  std::vector<SocketAddress> result;
  for (const addrinfo* at = found; at != nullptr; at = at->ai_next) {
    if (at->ai_family == AF_INET || at->ai_family == AF_INET6) result.push_back(from_sockaddr(at->ai_addr));
  }
  if (result.empty()) return Status::invalid(roda::format("no IPv4 or IPv6 address for host '{}'", host));
  *addresses = std::move(result);
  return {};
}

Status list_interfaces(std::vector<Interface>* interfaces) {
  ifaddrs* found = nullptr;
  if (getifaddrs(&found) != 0) return Status::of_errno("getifaddrs");
  std::unique_ptr<ifaddrs, decltype(&freeifaddrs)> owner(found, freeifaddrs);
  std::vector<Interface> result;
  for (const ifaddrs* at = found; at != nullptr; at = at->ifa_next) {
    if (at->ifa_addr == nullptr || (at->ifa_flags & IFF_UP) == 0) continue;
    if (at->ifa_addr->sa_family != AF_INET && at->ifa_addr->sa_family != AF_INET6) continue;
    auto same = std::find_if(result.begin(), result.end(), [&](const Interface& i) { return i.name == at->ifa_name; });
    if (same == result.end())
      same = result.insert(result.end(), {at->ifa_name, {}, (at->ifa_flags & IFF_LOOPBACK) != 0});
    same->addresses.push_back(from_sockaddr(at->ifa_addr));
  }
  auto order = [](const SocketAddress& a) { return a.family() == AF_INET ? 0 : a.is_link_local() ? 2 : 1; };
  for (Interface& interface : result) {
    std::ranges::stable_sort(interface.addresses, {}, order);
  }
  *interfaces = std::move(result);
  return {};
}

namespace {

// An interface with only link-local addresses is no use to a peer that doesn't share the link's name.
const Interface* default_interface(const std::vector<Interface>& interfaces) {
  const Interface* loopback = nullptr;
  for (const Interface& interface : interfaces) {
    if (!interface.is_loopback && !interface.addresses.front().is_link_local()) return &interface;
    if (interface.is_loopback && loopback == nullptr) loopback = &interface;
  }
  return loopback;
}

const Interface* named_interface(const std::vector<Interface>& interfaces, const std::string& names) {
  std::istringstream list(names);
  for (std::string name; std::getline(list, name, ',');) {
    for (const Interface& interface : interfaces) {
      if (interface.name == name) return &interface;
    }
  }
  return nullptr;
}

}  // namespace

Status interface_address(const std::string& names, SocketAddress* address) {
  std::vector<Interface> interfaces;
  RODA_RETURN_IF_ERROR(list_interfaces(&interfaces));
  const Interface* chosen = names.empty() ? default_interface(interfaces) : named_interface(interfaces, names);
  if (chosen == nullptr) {
    const auto known = roda::join(interfaces | std::views::transform(&Interface::name), ", ");
    return Status::invalid(
        roda::format("no network interface '{}' is up with an address; there are: {}", names, known));
  }
  *address = chosen->addresses.front();
  return {};
}

}  // namespace roda

#include "plugins/base/local_address.h"

#include <ifaddrs.h>
#include <net/if.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <climits>
#include <fstream>
#include <memory>
#include <sstream>
#include <utility>

#include "plugins/base/format.h"

namespace roda {

namespace {

std::string first_line(const char* path) {
  std::string line;
  std::getline(std::ifstream(path), line);
  return line;
}

// The addresses of interfaces that are up, with the interfaces' names, IPv4 before IPv6.
std::vector<std::pair<std::string, SocketAddress>> usable_addresses() {
  std::vector<std::pair<std::string, SocketAddress>> found;
  ifaddrs* first = nullptr;
  if (::getifaddrs(&first) != 0) return found;
  const std::unique_ptr<ifaddrs, decltype(&freeifaddrs)> owner(first, freeifaddrs);
  for (const ifaddrs* at = first; at != nullptr; at = at->ifa_next) {
    if (at->ifa_addr == nullptr || (at->ifa_flags & IFF_UP) == 0) continue;
    if (at->ifa_addr->sa_family != AF_INET && at->ifa_addr->sa_family != AF_INET6) continue;
    const SocketAddress address = SocketAddress::from(at->ifa_addr);
    if (!address.is_link_local()) found.emplace_back(at->ifa_name, address);
  }
  std::ranges::stable_partition(found, [](const auto& a) { return a.second.family() == AF_INET; });
  return found;
}

}  // namespace

std::string loopback_identity() {
  std::array<char, 64> net_namespace{};
  const ssize_t length = ::readlink("/proc/thread-self/ns/net", net_namespace.data(), net_namespace.size());
  return first_line("/proc/sys/kernel/random/boot_id") + " " +
         std::string(net_namespace.data(), length > 0 ? static_cast<std::size_t>(length) : 0);
}

std::vector<SocketAddress> loopback_addresses() {
  const auto usable = usable_addresses();
  std::vector<SocketAddress> both, there;
  for (const char* text : {"127.0.0.1", "::1"}) {
    std::vector<SocketAddress> one;
    if (!resolve(text, 0, &one).ok()) continue;
    both.push_back(one.front());
    const auto is_it = [&](const auto& own) { return own.second.host() == text; };
    if (std::ranges::any_of(usable, is_it)) there.push_back(one.front());
  }
  return there.empty() ? both : there;
}

std::vector<SocketAddress> own_name_addresses() {
  std::array<char, HOST_NAME_MAX + 1> name{};
  std::vector<SocketAddress> found;
  if (::gethostname(name.data(), name.size() - 1) != 0) return found;
  // A name that does not resolve is no error here: the interfaces decide then.
  static_cast<void>(resolve(name.data(), 0, &found));
  return found;
}

std::vector<SocketAddress> addresses_of_interfaces(const std::string& names) {
  const auto usable = usable_addresses();
  std::vector<SocketAddress> found;
  std::istringstream list(names);
  for (std::string name; std::getline(list, name, ',');) {
    for (const auto& [interface, address] : usable) {
      if (interface == name) found.push_back(address);
    }
  }
  return found;
}

Status interface_address(const std::string& names, SocketAddress* address) {
  const std::vector<SocketAddress> found = names.empty() ? network_addresses("") : addresses_of_interfaces(names);
  if (found.empty()) {
    return Status::invalid(
        roda::format("no network interface '{}' is up with an address; there are: {}", names, interfaces_up()));
  }
  *address = found.front();
  return {};
}

std::string interface_of(const std::string& address) {
  for (const auto& [interface, own] : usable_addresses()) {
    if (own.host() == address) return interface.substr(0, interface.find(':'));  // without an alias's label
  }
  return "";
}

std::vector<SocketAddress> own_among(const std::vector<SocketAddress>& addresses) {
  const auto usable = usable_addresses();
  std::vector<SocketAddress> found;
  for (const SocketAddress& address : addresses) {
    const auto is_it = [&](const auto& own) { return own.second.host() == address.host(); };
    if (!address.is_loopback() && std::ranges::any_of(usable, is_it)) found.push_back(address);
  }
  return found;
}

std::vector<SocketAddress> network_addresses(const std::string& known) {
  std::vector<SocketAddress> list;
  if (!known.empty() && resolve(known, 0, &list).ok()) return list;
  for (const auto& [interface, address] : usable_addresses()) {
    if (!address.is_loopback()) list.push_back(address);
  }
  const std::vector<SocketAddress> loopback = loopback_addresses();
  list.insert(list.end(), loopback.begin(), loopback.end());
  return list;
}

std::string network_address(const std::vector<std::string>& known) {
  std::vector<SocketAddress> found;
  for (const std::string& address : known) {
    if (resolve(address, 0, &found).ok() && !own_among(found).empty()) return address;
  }
  found = own_among(own_name_addresses());
  return (found.empty() ? network_addresses("") : found).front().host();
}

std::string interfaces_up() {
  std::vector<std::string> known;
  for (const auto& [interface, address] : usable_addresses()) known.push_back(interface + " (" + address.host() + ")");
  return known.empty() ? "none" : roda::join(known, ", ");
}

}  // namespace roda

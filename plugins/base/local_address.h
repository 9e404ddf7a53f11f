// Which of this host's addresses the ranks of a job reach each other by.
#pragma once

#include <string>
#include <vector>

#include "plugins/base/address.h"

namespace roda {

// Equal for processes that share a loopback interface: the host's boot and the network namespace. Ranks of one identity
// talk over loopback: that works without a network, with any host name and behind any firewall, and nobody else can
// connect.
std::string loopback_identity();

// 127.0.0.1 and ::1, port 0.
std::vector<SocketAddress> loopback_addresses();

// What the host's name resolves to; empty if it does not resolve. May block on the name service for seconds.
std::vector<SocketAddress> own_name_addresses();

// Addresses (port 0) of interfaces that are up, IPv4 first; link-local ones are left out, they need a scope to connect
// to. Of `names`, separated by commas, in that order.
std::vector<SocketAddress> addresses_of_interfaces(const std::string& names);

// Where to listen for other hosts when no interface was named, the best first: those of `by_name` that are addresses of
// this host and not loopback, then the interfaces that are up, then loopback.
std::vector<SocketAddress> network_addresses(const std::vector<SocketAddress>& by_name);

// "eth0 (10.0.0.2), lo (127.0.0.1)", or "none".
std::string interfaces_up();

}  // namespace roda

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

// 127.0.0.1 and ::1, as far as this host has them, with port 0; both where it has neither.
std::vector<SocketAddress> loopback_addresses();

// The addresses that the host's name resolves to; empty if it does not resolve. May block on the name service for
// seconds.
std::vector<SocketAddress> own_name_addresses();

// Addresses (port 0) of interfaces that are up, IPv4 first; link-local ones are left out, they need a scope to connect
// to. Of `names`, separated by commas, in that order.
std::vector<SocketAddress> addresses_of_interfaces(const std::string& names);

// The first of those; with no names that of the first interface that is not loopback, or of loopback when there is no
// other. The error for unknown names lists the interfaces that exist.
Status interface_address(const std::string& names, SocketAddress* address);

// Where to listen for other hosts when no interface was named: the address that is `known` to be reached; where it is
// empty the interfaces that are up, then loopback.
std::vector<SocketAddress> network_addresses(const std::string& known);

// Of the given addresses those that are this host's, and not loopback.
std::vector<SocketAddress> own_among(const std::vector<SocketAddress>& addresses);

// Where other hosts reach this one: the first of `known`, numeric addresses, that is its own; else what the host's name
// resolves to, if that is; else the first interface that is up. May block on the name service for seconds.
std::string network_address(const std::vector<std::string>& known);

// "eth0"; empty when none that is up has the address, as host() writes it.
std::string interface_of(const std::string& address);

// "eth0 (10.0.0.2), lo (127.0.0.1)", or "none".
std::string interfaces_up();

}  // namespace roda

// Where a socket is: IPv4 and IPv6 addresses.
#pragma once

#include <sys/socket.h>

#include <string>
#include <vector>

#include "plugins/base/status.h"

namespace roda {

// A value. Text form: "10.0.0.1:80", "[fe80::1%eth0]:80".
struct SocketAddress {
  sockaddr_storage storage{};
  socklen_t length = 0;

  static SocketAddress from(const sockaddr* address);  // of either family
  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&storage); }
  int family() const { return storage.ss_family; }
  int port() const;
  void set_port(int port);
  bool is_loopback() const;
  bool is_link_local() const;  // IPv6, of use only with its interface's name
  std::string host() const;    // without the port
  std::string text() const;
};

// Addresses of a host name or numeric address, in the order to try them. May block on the name service.
Status resolve(const std::string& host, int port, std::vector<SocketAddress>* addresses);

}  // namespace roda

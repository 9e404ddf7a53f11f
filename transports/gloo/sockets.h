// The sockets behind Gloo's pairs.
#pragma once

#include <sys/socket.h>

#include <vector>

namespace roda::gloo {

// This process's connections that are bound to one of `local`.
std::vector<int> connections_at(const std::vector<sockaddr_storage>& local);

}  // namespace roda::gloo

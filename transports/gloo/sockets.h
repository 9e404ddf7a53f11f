// The sockets behind Gloo's pairs.
#pragma once

#include <sys/socket.h>

#include <utility>
#include <vector>

namespace roda::gloo {

// This process's connections that are bound to one of `local`, each with the index of that.
std::vector<std::pair<int, std::size_t>> connections_at(const std::vector<sockaddr_storage>& local);

}  // namespace roda::gloo

// The sockets behind Gloo's pairs.
#pragma once

#include <sys/socket.h>

#include <utility>
#include <vector>

namespace roda::gloo {

// This process's connections that are bound to one of `local`, each with the index of that.
std::vector<std::pair<int, std::size_t>> connections_at(const std::vector<sockaddr_storage>& local);

// Where both ends have one address no network lies between them, and nothing is lost: takes the kernel's oldest
// congestion control, which such a connection never holds back. BBR, where it is the system's choice, paces by round
// trips that are the scheduler's here, and moves half as much. Other connections keep the system's choice.
void unpace_if_local(int socket);

}  // namespace roda::gloo

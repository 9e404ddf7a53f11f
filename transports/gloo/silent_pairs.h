// Gloo's pairs without their listening sockets: each would take the first who connects for its peer.
#pragma once

#include <gloo/transport/context.h>
#include <gloo/transport/device.h>
#include <gloo/transport/pair.h>

#include <chrono>
#include <memory>

#include "plugins/base/address.h"
#include "plugins/base/unique_fd.h"

namespace roda::gloo {

// A context with a pair for every other rank. *address: the device's, to listen on.
std::shared_ptr<::gloo::transport::Context> make_silent_pairs(const std::shared_ptr<::gloo::transport::Device>& device,
                                                              int rank, int size, std::chrono::milliseconds timeout,
                                                              SocketAddress* address);

// Makes the socket the pair's connection, which is Gloo's from here on. The pair is of such a context. Throws what Gloo
// throws.
void give_connection(::gloo::transport::Pair* pair, UniqueFd socket);

}  // namespace roda::gloo

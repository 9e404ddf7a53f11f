// Non-blocking TCP. Every descriptor made here is non-blocking and close-on-exec.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <span>

#include "plugins/base/address.h"
#include "plugins/base/status.h"
#include "plugins/base/unique_fd.h"

namespace roda::tcp {

// Listens on the address (port 0: any free; "::" stands for IPv4's, too); *bound is the address with the port in use.
Status listen_on(const SocketAddress& address, UniqueFd* listener, SocketAddress* bound);

// Takes one waiting connection. An empty *connection without an error: none is waiting.
Status accept_one(int listener, UniqueFd* connection, SocketAddress* peer);

// Begins to connect; finish with connect_test once the descriptor is writable.
Status connect_start(const SocketAddress& peer, UniqueFd* connection);
Status connect_test(int fd, bool* connected);

// No delay; and a peer that is silent for `silence` (unacknowledged data or unanswered keep-alive probes) is given up.
Status set_options(int fd, std::chrono::milliseconds silence);

// Whether it has two, and which.
bool ends_of(int fd, SocketAddress* here, SocketAddress* there);

// Where both ends of a connection have one address no network lies between them, and nothing is lost: such a one takes
// the kernel's oldest congestion control, which never holds it back. BBR, where it is the system's choice, paces by
// round trips, which are the scheduler's there, and moves about half as much. Other connections keep what they have.
void unpace_if_local(int fd);

// One read or write. *count is 0 when the descriptor would block; the end of the stream is *end. A connection that was
// reset or timed out is RODA_ERR_PEER.
Status read_some(int fd, std::span<std::uint8_t> into, std::size_t* count, bool* end);
Status write_some(int fd, std::span<const std::uint8_t> from, std::size_t* count);

}  // namespace roda::tcp

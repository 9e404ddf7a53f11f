#include <roda/sdk/transport.hpp>

#include "transports/tcp/context.h"
#include "transports/tcp/group.h"
#include "transports/tcp/tcp.h"

namespace roda::tcp_transport {
namespace {

// No probe: every Linux has TCP. Addresses are looked for when a group forms.
constexpr std::uint64_t kCapabilities = RODA_CAP_P2P | RODA_CAP_FAULT_TOLERANT;
constexpr roda_transport kTransport =
    sdk::transport<Context, Group, kCapabilities>("tcp", "TCP connections of our own", RODA_PROGRESS_FD);

}  // namespace
}  // namespace roda::tcp_transport

const roda_transport* roda_tcp_transport() { return &roda::tcp_transport::kTransport; }

#include <roda/sdk/transport.hpp>

#include "transports/loop/context.h"
#include "transports/loop/group.h"
#include "transports/loop/loop.h"

namespace roda::loop {
namespace {

constexpr std::uint64_t kCapabilities = RODA_CAP_P2P | RODA_CAP_SIGNAL | RODA_CAP_GET | RODA_CAP_PUT | RODA_CAP_MAP |
                                        RODA_CAP_ALLOCATE | RODA_CAP_SAME_HOST | RODA_CAP_IN_PROCESS |
                                        RODA_CAP_FAULT_TOLERANT | RODA_CAP_WINDOW_ANY;
constexpr roda_transport kTransport = sdk::transport<Context, Group, kCapabilities>(
    "loop", "ranks as threads of one process, for tests", RODA_PROGRESS_FD);

}  // namespace
}  // namespace roda::loop

const roda_transport* roda_loop_transport() { return &roda::loop::kTransport; }

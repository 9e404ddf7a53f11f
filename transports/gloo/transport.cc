#include <gloo/config.h>
#include <roda/sdk/transport.hpp>

#include "transports/gloo/context.h"
#include "transports/gloo/gloo.h"
#include "transports/gloo/group.h"

namespace roda::gloo {
namespace {

#define RODA_GLOO_TEXT_OF(value) #value
#define RODA_GLOO_TEXT(value) RODA_GLOO_TEXT_OF(value)

// No probe: the library is linked, so if the plugin loads it was found. Addresses are looked for when a group forms.
constexpr std::uint64_t kCapabilities = RODA_CAP_P2P | RODA_CAP_NATIVE | RODA_CAP_FAULT_TOLERANT;
constexpr roda_transport kTransport = sdk::transport<Context, Group, kCapabilities>(
    "gloo",
    "Gloo " RODA_GLOO_TEXT(GLOO_VERSION_MAJOR) "." RODA_GLOO_TEXT(GLOO_VERSION_MINOR) "." RODA_GLOO_TEXT(
        GLOO_VERSION_PATCH) " over TCP",
    RODA_PROGRESS_FD);

}  // namespace
}  // namespace roda::gloo

const roda_transport* roda_gloo_transport() { return &roda::gloo::kTransport; }

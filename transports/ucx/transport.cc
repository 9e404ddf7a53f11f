#include <roda/sdk/transport.hpp>

#include "transports/ucx/context.h"
#include "transports/ucx/group.h"
#include "transports/ucx/ucx.h"

const roda_transport* roda_ucx_transport() {
  static constexpr roda_transport table =
      roda::sdk::transport<roda::ucx::Context, roda::ucx::Group, roda::ucx::kCapabilities>(
          "ucx", "UCX " RODA_UCX_BUILD_VERSION ": tagged messages and one-sided access", RODA_PROGRESS_FD);
  return &table;
}

#include <roda/sdk/transport.hpp>

#include "transports/verbs/context.h"
#include "transports/verbs/group.h"
#include "transports/verbs/verbs.h"

const roda_transport* roda_verbs_transport() {
  static constexpr roda_transport table =
      roda::sdk::transport<roda::verbs::Context, roda::verbs::Group, roda::verbs::kCapabilities>(
          "verbs", "RDMA over libibverbs: reliable connections of InfiniBand and RoCE devices", RODA_PROGRESS_FD);
  return &table;
}

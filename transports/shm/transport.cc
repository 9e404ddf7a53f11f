#include <roda/sdk/transport.hpp>

#include "transports/shm/context.h"
#include "transports/shm/group.h"
#include "transports/shm/shm.h"

const roda_transport* roda_shm_transport() {
  static constexpr roda_transport table =
      roda::sdk::transport<roda::shm::Context, roda::shm::Group, roda::shm::kCapabilities>(
          "shm", "shared memory and cross-memory attach between processes of one host", RODA_PROGRESS_FD);
  return &table;
}

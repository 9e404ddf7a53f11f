#include <roda/sdk/transport.hpp>

#include "transports/nccl/context.h"
#include "transports/nccl/group.h"
#include "transports/nccl/nccl.h"

const roda_transport* roda_nccl_transport() {
  // The text is filled in by the probe, which knows the library.
  static const roda_transport table =
      roda::sdk::transport<roda::nccl::Context, roda::nccl::Group,
                           RODA_CAP_NATIVE | RODA_CAP_REGISTER | RODA_CAP_FAULT_TOLERANT>(
          "nccl", roda::nccl::Context::description(), RODA_PROGRESS_POLL);
  return &table;
}

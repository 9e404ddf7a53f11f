// One process for each rank number.
#pragma once

#include <string>

#include "core/bootstrap/host_identity.h"
#include "core/bootstrap/store.h"
#include "plugins/base/status.h"

namespace roda {

// The first process that claims a rank keeps it. Any other gets RODA_ERR_PRECONDITION, which names the first, at once,
// and disturbs nobody. A prefix is used once per store. Blocks for a round trip.
Status claim_rank(Store& store, int rank, const HostIdentity& host, const std::string& prefix,
                  Store::Clock::time_point deadline);

}  // namespace roda

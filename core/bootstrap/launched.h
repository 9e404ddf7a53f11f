// A job whose processes a foreign launcher started: a plugin's bootstrap brings them together, once, and from then on
// they meet over a store of our own.
#pragma once

#include <roda/abi/bootstrap.h>

#include <memory>
#include <optional>
#include <vector>

#include "core/bootstrap/store.h"
#include "core/knobs/knobs.h"
#include "plugins/base/secret.h"
#include "plugins/base/status.h"

namespace roda {

// Which of the launcher's processes form the job. Neither: all.
struct Members {
  std::vector<std::int32_t> ranks;           // in the launcher's numbers
  std::optional<std::int32_t> communicator;  // see roda_job_options

  bool is_everybody() const { return ranks.empty() && !communicator.has_value(); }
};

// Collective over the members; blocks. Sets rank and size in *knobs. The first rank makes the secret and serves the
// store: on loopback when all are on one host, else on HOROVOD_GLOO_IFACE or the first interface. The server lives on
// while other ranks may still be reading from it: until the second call after this one.
Status join_launched_job(const roda_bootstrap& bootstrap, const roda_host* host, const Members& members, Knobs* knobs,
                         Secret* secret, std::unique_ptr<Store>* store);

}  // namespace roda

// A job whose processes a foreign launcher started: a plugin's bootstrap brings them together, once, and from then on
// they meet over a store of our own.
#pragma once

#include <roda/abi/bootstrap.h>

#include <memory>
#include <optional>
#include <vector>

#include "core/bootstrap/declared_job.h"
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
// store: on loopback when all are on one host, else on HOROVOD_GLOO_IFACE or the first interface. Where the plugin
// comes up with another size than was `declared` to this process, the error says both.
Status join_launched_job(const roda_bootstrap& bootstrap, const roda_host* host, const Members& members,
                         const DeclaredJob& declared, Knobs* knobs, Secret* secret, std::unique_ptr<Store>* store);

}  // namespace roda

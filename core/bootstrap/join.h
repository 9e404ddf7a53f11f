// Joining a job that a foreign launcher started. From then on the ranks meet over a store of our own.
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

// --- by a plugin's bootstrap, which brings the processes together, once ---------------------------------------------

// Which of the launcher's processes form the job. Neither: all.
struct Members {
  std::vector<std::int32_t> ranks;           // in the launcher's numbers
  std::optional<std::int32_t> communicator;  // see roda_job_options

  bool is_everybody() const { return ranks.empty() && !communicator.has_value(); }
};

// Collective over the members; blocks. Sets rank and size in *knobs. The first rank makes the secret and serves the
// store: on loopback when all are on one host, else on HOROVOD_GLOO_IFACE or all interfaces. Where the plugin
// comes up with another size than was `declared` to this process, the error says both.
Status join_launched_job(const roda_bootstrap& bootstrap, const roda_host* host, const Members& members,
                         const DeclaredJob& declared, Knobs* knobs, Secret* secret, std::unique_ptr<Store>* store);

// --- by what the launcher's variables say: the rank, the number of ranks, and where rank 0 is -----------------------
//
// All on one host: over a LocalMeeting, which carries a secret that rank 0 draws; the store listens on loopback.
// Else rank 0 serves the store at the first free port of the 16 above the launcher's port (MASTER_PORT itself belongs
// to torch), on HOROVOD_GLOO_IFACE, else on the address that the launcher gave if it is one of this host's, else on all
// interfaces. The others try these ports in turn. The secret is the user's (HOROVOD_SECRET_FILE) if one is given, else
// made of the job's identity: that keeps jobs apart, and no stranger out.

// Blocks until rank 0 is there, at most gloo_timeout_seconds. Sets rank and size in *knobs. The second time a process
// calls it for the same job, it goes to the same store.
Status join_declared_job(const DeclaredJob& job, Knobs* knobs, Secret* secret, std::unique_ptr<Store>* store);

// Where rank 0's store may listen, the first choice first.
std::vector<int> ports_above(int port);

}  // namespace roda

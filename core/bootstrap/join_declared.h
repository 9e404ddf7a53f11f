// A job whose launcher only tells each process its rank, the number of ranks, and where rank 0 is.
//
// All on one host: over a LocalMeeting, which carries a secret that rank 0 draws; the store listens on loopback.
// Else rank 0 serves the store at the first free port of the 16 above the launcher's port (MASTER_PORT itself belongs
// to torch), on HOROVOD_GLOO_IFACE, else on the address that the launcher gave if it is one of this host's, else on all
// interfaces. The others try these ports in turn. The secret is the user's (HOROVOD_SECRET_FILE) if one is given, else
// made of the job's identity: that keeps jobs apart, and no stranger out.
#pragma once

#include <memory>
#include <vector>

#include "core/bootstrap/declared_job.h"
#include "core/bootstrap/store.h"
#include "core/knobs/knobs.h"
#include "plugins/base/secret.h"
#include "plugins/base/status.h"

namespace roda {

// Blocks until rank 0 is there, at most gloo_timeout_seconds. Sets rank and size in *knobs. The second time a process
// calls it for the same job, it goes to the same store.
Status join_declared_job(const DeclaredJob& job, Knobs* knobs, Secret* secret, std::unique_ptr<Store>* store);

// Where rank 0's store may listen, the first choice first.
std::vector<int> ports_above(int port);

}  // namespace roda

// From the settings to the store that the job meets over.
#pragma once

#include <memory>

#include "core/bootstrap/store.h"
#include "core/knobs/knobs.h"
#include "plugins/base/secret.h"
#include "plugins/base/status.h"

namespace roda {

// Without a rendezvous address: a job of one process, a LocalStore and a generated secret. With one: the launcher's
// secret and a TcpStore, connected within gloo_timeout_seconds. Blocks.
Status open_store(const Knobs& knobs, Secret* secret, std::unique_ptr<Store>* store);

}  // namespace roda

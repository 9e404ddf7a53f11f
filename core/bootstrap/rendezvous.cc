#include "core/bootstrap/rendezvous.h"

#include "core/bootstrap/job_secret.h"
#include "core/bootstrap/tcp_store.h"
#include "plugins/base/format.h"

namespace roda {

Status open_store(const Knobs& knobs, Secret* secret, std::unique_ptr<Store>* store) {
  if (knobs.rendezvous_addr.empty()) {
    if (knobs.size.value_or(1) > 1) {
      return Status::invalid(roda::format(
          "HOROVOD_SIZE={} but no rendezvous: start the job with horovodrun, or set HOROVOD_RENDEZVOUS_ADDR and _PORT",
          *knobs.size));
    }
    RODA_RETURN_IF_ERROR(generate_secret(secret));
    *store = std::make_unique<LocalStore>();
    return {};
  }
  if (knobs.rendezvous_port <= 0) {
    return Status::invalid(
        roda::format("HOROVOD_GLOO_RENDEZVOUS_ADDR={} without HOROVOD_GLOO_RENDEZVOUS_PORT", knobs.rendezvous_addr));
  }
  Secret loaded;
  RODA_RETURN_IF_ERROR(load_secret(knobs, &loaded));
  RODA_RETURN_IF_ERROR(TcpStore::connect(knobs.rendezvous_addr, knobs.rendezvous_port, loaded,
                                         std::chrono::seconds(knobs.gloo_timeout_seconds), store));
  *secret = std::move(loaded);
  return {};
}

}  // namespace roda

#include "transports/ucx/worker.h"

#include <ucs/debug/log_def.h>

#include "plugins/base/helper_thread.h"
#include "plugins/base/locked_memory.h"
#include "transports/ucx/errors.h"

namespace roda::ucx {
namespace {

// UCX warns of settings that none of its transports here took, and of what an abort left unfinished: both are expected.
class WarningsHidden {
 public:
  WarningsHidden() { ucs_log_push_handler(&WarningsHidden::filter); }
  ~WarningsHidden() { ucs_log_pop_handler(); }
  WarningsHidden(const WarningsHidden&) = delete;
  WarningsHidden& operator=(const WarningsHidden&) = delete;

 private:
  static ucs_log_func_rc_t filter(const char*, unsigned, const char*, ucs_log_level_t level,
                                  const ucs_log_component_config_t*, const char*, va_list) {
    return level == UCS_LOG_LEVEL_WARN ? UCS_LOG_FUNC_RC_STOP : UCS_LOG_FUNC_RC_CONTINUE;
  }
};

}  // namespace

Worker::Worker(const Library& library) {
  // UCX starts a helper thread with its first worker, which inherits the mask.
  const SignalsBlocked blocked;
  const WarningsHidden hidden;
  ucp_worker_params_t params{};
  params.field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE | UCP_WORKER_PARAM_FIELD_EVENTS;
  params.thread_mode = UCS_THREAD_MODE_SERIALIZED;
  // The default is everything, which includes UCP_WAKEUP_EDGE: events that are there already would wake nobody.
  params.events =
      UCP_WAKEUP_RMA | UCP_WAKEUP_AMO | UCP_WAKEUP_TAG_SEND | UCP_WAKEUP_TAG_RECV | UCP_WAKEUP_TX | UCP_WAKEUP_RX;
  ucs_status_t status = ucp_worker_create(library.get(), &params, &worker_);
  if (status != UCS_OK) {
    // UCX does not hand on why a device refused.
    const sdk::Failure plain = failure(status, "no worker could be created");
    throw sdk::Failure(plain.code(), plain.what() + locked_memory_advice());
  }
  status = ucp_worker_get_efd(worker_, &event_fd_);
  if (status == UCS_OK) return;
  ucp_worker_destroy(worker_);
  throw failure(status, "none of the transports that UCX_TLS allows can wake a sleeper");
}

Worker::~Worker() {
  const WarningsHidden hidden;
  ucp_worker_destroy(worker_);
}

std::vector<char> Worker::address() const {
  ucp_address_t* address = nullptr;
  std::size_t bytes = 0;
  check(ucp_worker_get_address(worker_, &address, &bytes), "the worker has no address");
  const char* from = reinterpret_cast<const char*>(address);
  std::vector<char> copy(from, from + bytes);
  ucp_worker_release_address(worker_, address);
  return copy;
}

bool Worker::arm() {
  const ucs_status_t status = ucp_worker_arm(worker_);
  if (status != UCS_OK && status != UCS_ERR_BUSY) throw failure(status, "the worker can't be armed");
  return status == UCS_OK;
}

}  // namespace roda::ucx

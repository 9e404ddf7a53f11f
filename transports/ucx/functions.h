// UCX's functions, opened at run time: where there is no UCX the plugin loads all the same and says so.
#pragma once

#include <ucp/api/ucp.h>
#include <ucs/debug/log_def.h>
#include <ucs/type/status.h>

namespace roda::ucx {

// clang-format off
#define RODA_UCP_FUNCTIONS(X)                                                                                       \
  X(am_send_nbx) X(cleanup) X(config_modify) X(config_read) X(config_release) X(context_query) X(ep_close_nbx)      \
  X(ep_create) X(ep_flush_nbx) X(ep_print_info) X(ep_rkey_unpack) X(get_nbx) X(get_version) X(init_version)         \
  X(mem_map) X(mem_query) X(mem_unmap) X(put_nbx) X(request_cancel) X(request_check_status) X(request_free)         \
  X(rkey_buffer_release) X(rkey_destroy) X(rkey_pack) X(tag_recv_nbx) X(tag_send_nbx) X(worker_arm)                 \
  X(worker_create) X(worker_destroy) X(worker_flush_nbx) X(worker_get_address) X(worker_get_efd)                    \
  X(worker_progress) X(worker_release_address) X(worker_set_am_recv_handler)
// clang-format on

#define RODA_UCS_FUNCTIONS(X) X(log_pop_handler) X(log_push_handler) X(status_string)

struct Ucp {
#define X(name) decltype(&::ucp_##name) name = nullptr;
  RODA_UCP_FUNCTIONS(X)
#undef X
};
struct Ucs {
#define X(name) decltype(&::ucs_##name) name = nullptr;
  RODA_UCS_FUNCTIONS(X)
#undef X
};

// Null before open_functions(), constant after it.
extern Ucp ucp;
extern Ucs ucs;

// Loads UCX, if it is not there yet; it is never closed. Any thread. Throws sdk::Failure(RODA_ERR_UNAVAILABLE) with the
// reason: there is none, or it is older than the headers that this was compiled with.
void open_functions();

}  // namespace roda::ucx

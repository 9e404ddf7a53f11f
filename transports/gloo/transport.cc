// The C table of the Gloo transport.
#include <gloo/config.h>
#include <roda/sdk/error.hpp>
#include <roda/sdk/plugin.hpp>

#include "transports/gloo/group.h"

using roda::gloo::Request;
using roda::sdk::Failure;
using roda::sdk::guarded;

struct roda_context : roda::gloo::Context {
  using Context::Context;
};
struct roda_group : roda::gloo::Group {
  using Group::Group;
};

namespace {

using Pool = roda::sdk::RequestPool<Request>;

#define RODA_GLOO_TEXT_OF(value) #value
#define RODA_GLOO_TEXT(value) RODA_GLOO_TEXT_OF(value)
#define RODA_GLOO_VERSION \
  RODA_GLOO_TEXT(GLOO_VERSION_MAJOR) "." RODA_GLOO_TEXT(GLOO_VERSION_MINOR) "." RODA_GLOO_TEXT(GLOO_VERSION_PATCH)

constexpr std::uint64_t kCapabilities = RODA_CAP_P2P | RODA_CAP_NATIVE | RODA_CAP_FAULT_TOLERANT;

// The library is linked: if this runs, it was found and is compatible. Addresses are looked for when a group forms.
int32_t probe(const roda_host*, roda_error*) { return RODA_OK; }

int32_t context_create(const roda_host* host, roda_context** context, roda_error* error) {
  return guarded(error, [&] {
    *context = new roda_context(host);
    return RODA_OK;
  });
}
void context_destroy(roda_context* context) { delete context; }
uint64_t context_capabilities(roda_context*) { return kCapabilities; }
int32_t progress(roda_context* context) { return context->take_events(); }
int32_t event_fd(roda_context* context) { return context->doorbell().fd(); }
int32_t arm(roda_context* context) {
  context->doorbell().arm();
  return RODA_OK;
}
void disarm(roda_context* context) { context->doorbell().disarm(); }

int32_t group_create(roda_context* context, const roda_group_desc* desc, roda_group** group, roda_error* error) {
  return guarded(error, [&] {
    *group = new roda_group(context, *desc);
    return RODA_OK;
  });
}
int32_t group_test(roda_group* group, roda_error* error) {
  return guarded(error, [&] { return group->test() ? RODA_OK : RODA_IN_PROGRESS; });
}
void group_abort(roda_group* group, const roda_error* cause) {
  guarded(nullptr, [&] {
    group->abort(Failure(*cause));
    return RODA_OK;
  });
}
void group_destroy(roda_group* group) { delete group; }

int32_t send(roda_group* group, int32_t peer, uint64_t tag, const void* data, size_t bytes, const roda_memory*,
             roda_request** request, roda_error* error) {
  *request = nullptr;
  return guarded(error, [&] {
    bool again = false;
    *request = Pool::handle(group->send(peer, tag, data, bytes, &again));
    return again ? RODA_AGAIN : RODA_OK;
  });
}
int32_t recv(roda_group* group, int32_t peer, uint64_t tag, void* data, size_t bytes, const roda_memory*,
             roda_request** request, roda_error* error) {
  *request = nullptr;
  return guarded(error, [&] {
    *request = Pool::handle(group->receive(peer, tag, data, bytes));
    return RODA_OK;
  });
}
int32_t request_test(roda_group* group, roda_request* request, roda_error* error) {
  return guarded(error, [&] { return group->test(Pool::request(request), error); });
}

int32_t collective_supported(roda_context*, int32_t collective, int32_t dtype, int32_t op, int32_t memory_kind) {
  return memory_kind == RODA_MEMORY_HOST && roda::gloo::is_supported(collective, dtype, op) ? 1 : 0;
}
int32_t collective_start(roda_group* group, const roda_collective_args* args, roda_request** request,
                         roda_error* error) {
  *request = nullptr;
  return guarded(error, [&] {
    if (collective_supported(nullptr, args->collective, args->dtype, args->op, args->memory_kind) == 0) {
      throw Failure(RODA_ERR_UNSUPPORTED, std::string("gloo: no ") + roda_collective_name(args->collective) + " of " +
                                              roda_dtype_name(args->dtype));
    }
    *request = Pool::handle(group->start(*args));
    return RODA_OK;
  });
}

int32_t quiesced(roda_group* group, const void* base, size_t bytes) { return group->quiesced(base, bytes) ? 1 : 0; }

constexpr roda_transport kTransport = {
    .struct_size = sizeof(roda_transport),
    .abi_version = RODA_ABI_VERSION,
    .name = "gloo",
    .description = "Gloo " RODA_GLOO_VERSION " over TCP",
    .progress_mode = RODA_PROGRESS_THREAD,
    .reserved = 0,
    .capabilities = kCapabilities,
    .probe = probe,
    .context_create = context_create,
    .context_destroy = context_destroy,
    .context_capabilities = context_capabilities,
    .progress = progress,
    .event_fd = event_fd,
    .arm = arm,
    .disarm = disarm,
    .group_create = group_create,
    .group_test = group_test,
    .group_abort = group_abort,
    .group_destroy = group_destroy,
    .send = send,
    .recv = recv,
    .request_test = request_test,
    .signal_count = nullptr,
    .signal = nullptr,
    .signal_value = nullptr,
    .window_count = nullptr,
    .window_open = nullptr,
    .window_close = nullptr,
    .window_map = nullptr,
    .get = nullptr,
    .put = nullptr,
    .memory_alloc = nullptr,
    .memory_free = nullptr,
    .memory_register = nullptr,
    .memory_deregister = nullptr,
    .collective_supported = collective_supported,
    .collective_start = collective_start,
    .quiesced = quiesced,
};

}  // namespace

RODA_TRANSPORT_PLUGIN("gloo", &kTransport);

// The C table of the loop transport.
#include <roda/sdk/error.hpp>
#include <roda/sdk/request_pool.hpp>

#include <memory>

#include "transports/loop/context.h"
#include "transports/loop/hub.h"
#include "transports/loop/loop.h"

using roda::loop::Clock;
using roda::loop::Hub;
using roda::loop::Operation;
using roda::sdk::Failure;
using roda::sdk::guarded;

struct roda_context : roda::loop::Context {
  using Context::Context;
};

struct roda_group {
  roda_context* context;
  std::shared_ptr<Hub> hub;
  int rank;
  Clock::duration timeout;
  Clock::time_point started;
  roda::sdk::RequestPool<Operation> pool;
};

namespace {

using Pool = roda::sdk::RequestPool<Operation>;

constexpr std::uint64_t kCapabilities = RODA_CAP_P2P | RODA_CAP_SIGNAL | RODA_CAP_GET | RODA_CAP_PUT | RODA_CAP_MAP |
                                        RODA_CAP_ALLOCATE | RODA_CAP_SAME_HOST | RODA_CAP_IN_PROCESS |
                                        RODA_CAP_FAULT_TOLERANT | RODA_CAP_WINDOW_ANY;

int32_t probe(const roda_host*, roda_error*) { return RODA_OK; }

int32_t context_create(const roda_host* host, roda_context** context, roda_error* error) {
  return guarded(error, [&] {
    *context = new roda_context(host);
    return RODA_OK;
  });
}
void context_destroy(roda_context* context) { delete context; }
uint64_t context_capabilities(roda_context*) { return kCapabilities; }
int32_t progress(roda_context* context) { return context->progress(); }
int32_t event_fd(roda_context* context) { return context->event_fd(); }
int32_t arm(roda_context* context) { return context->arm(); }
void disarm(roda_context* context) { context->disarm(); }

int32_t group_create(roda_context* context, const roda_group_desc* desc, roda_group** group, roda_error* error) {
  return guarded(error, [&] {
    const auto timeout = std::chrono::nanoseconds(desc->timeout_ns);
    auto made = std::unique_ptr<roda_group>(
        new roda_group{context, Hub::find(*desc), desc->rank, timeout, Clock::now(), Pool()});
    made->hub->join(desc->rank, context);
    context->add(made->hub.get(), desc->rank);
    *group = made.release();
    return RODA_OK;
  });
}

int32_t group_test(roda_group* group, roda_error* error) {
  return guarded(error, [&] {
    group->hub->throw_if_aborted(group->rank);
    if (group->hub->complete()) return RODA_OK;
    if (group->timeout > Clock::duration::zero() && Clock::now() - group->started > group->timeout) {
      throw Failure(RODA_ERR_TIMEOUT, "these ranks did not join the group in time: " + group->hub->missing());
    }
    return RODA_IN_PROGRESS;
  });
}

void group_abort(roda_group* group, const roda_error* cause) { group->hub->abort(group->rank, Failure(*cause)); }

void group_destroy(roda_group* group) {
  group->hub->leave(group->rank);
  group->context->remove(group->hub.get());
  delete group;
}

// Starts a send or a receive and takes the operation back when it ended at once, in whatever way.
template <typename Start>
int32_t start(roda_group* group, int32_t peer, uint64_t tag, void* data, size_t bytes, roda_request** request,
              roda_error* error, Start&& begin) {
  *request = nullptr;
  return guarded(error, [&]() -> int32_t {
    if (group->context->count_operation()) return RODA_AGAIN;
    Operation* operation = group->pool.take();
    *operation = {.peer = peer, .tag = tag, .data = data, .bytes = bytes, .started = Clock::now()};
    const auto give_back = [group](Operation* done) { group->pool.give_back(done); };
    std::unique_ptr<Operation, decltype(give_back)> owner(operation, give_back);
    if (begin(operation)) return RODA_OK;
    *request = Pool::handle(owner.release());
    return RODA_OK;
  });
}

int32_t send(roda_group* group, int32_t peer, uint64_t tag, const void* data, size_t bytes, const roda_memory*,
             roda_request** request, roda_error* error) {
  const auto begin = [group](Operation* op) { return group->hub->send(group->rank, op, group->context->delay()); };
  return start(group, peer, tag, const_cast<void*>(data), bytes, request, error, begin);
}

int32_t recv(roda_group* group, int32_t peer, uint64_t tag, void* data, size_t bytes, const roda_memory*,
             roda_request** request, roda_error* error) {
  const auto begin = [group](Operation* op) { return group->hub->receive(group->rank, op); };
  return start(group, peer, tag, data, bytes, request, error, begin);
}

int32_t request_test(roda_group* group, roda_request* request, roda_error* error) {
  Operation* operation = Pool::request(request);
  const int code = group->hub->test(group->rank, operation, group->timeout, error);
  if (code != RODA_IN_PROGRESS) group->pool.give_back(operation);
  return code;
}

uint32_t signal_count(roda_group*) { return roda::loop::kSignals; }

int32_t signal(roda_group* group, int32_t peer, uint32_t index, uint64_t value, roda_error* error) {
  return guarded(error, [&] {
    group->hub->signal(group->rank, peer, index, value);
    return RODA_OK;
  });
}

uint64_t signal_value(roda_group* group, int32_t peer, uint32_t index) {
  return group->hub->signal_value(group->rank, peer, index);
}

uint32_t window_count(roda_group*) { return roda::loop::kWindows; }

int32_t window_open(roda_group* group, uint32_t slot, void* base, size_t bytes, const roda_memory*, roda_error* error) {
  return guarded(error, [&] {
    group->hub->open_window(group->rank, slot, base, bytes);
    return RODA_OK;
  });
}

void window_close(roda_group* group, uint32_t slot) { group->hub->close_window(group->rank, slot); }
void* window_map(roda_group* group, int32_t peer, uint32_t slot) { return group->hub->map_window(peer, slot); }

int32_t get(roda_group* group, int32_t peer, uint32_t slot, size_t offset, void* destination, size_t bytes,
            roda_request** request, roda_error* error) {
  *request = nullptr;
  return guarded(error, [&]() -> int32_t {
    if (group->context->count_operation()) return RODA_AGAIN;
    group->hub->get(group->rank, peer, slot, offset, destination, bytes);
    return RODA_OK;
  });
}

int32_t put(roda_group* group, int32_t peer, uint32_t slot, size_t offset, const void* source, size_t bytes,
            roda_request** request, roda_error* error) {
  *request = nullptr;
  return guarded(error, [&]() -> int32_t {
    if (group->context->count_operation()) return RODA_AGAIN;
    group->hub->put(group->rank, peer, slot, offset, source, bytes);
    return RODA_OK;
  });
}

int32_t memory_alloc(roda_group* group, size_t bytes, roda_memory* memory, roda_error* error) {
  return guarded(error, [&] {
    group->hub->throw_if_aborted(group->rank);
    void* address = group->hub->allocate(bytes);
    *memory = {sizeof *memory, RODA_MEMORY_HOST, -1, 0, address, bytes, address};
    return RODA_OK;
  });
}

void memory_free(roda_group* group, roda_memory* memory) { group->hub->release(memory->owner); }

int32_t quiesced(roda_group* group, const void* base, size_t bytes) {
  return group->hub->quiesced(group->rank, base, bytes) ? 1 : 0;
}

constexpr roda_transport kTransport = {
    .struct_size = sizeof(roda_transport),
    .abi_version = RODA_ABI_VERSION,
    .name = "loop",
    .description = "ranks as threads of one process, for tests",
    .progress_mode = RODA_PROGRESS_FD,
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
    .signal_count = signal_count,
    .signal = signal,
    .signal_value = signal_value,
    .window_count = window_count,
    .window_open = window_open,
    .window_close = window_close,
    .window_map = window_map,
    .get = get,
    .put = put,
    .memory_alloc = memory_alloc,
    .memory_free = memory_free,
    .memory_register = nullptr,
    .memory_deregister = nullptr,
    .collective_supported = nullptr,
    .collective_start = nullptr,
    .quiesced = quiesced,
};

}  // namespace

const roda_transport* roda_loop_transport() { return &kTransport; }

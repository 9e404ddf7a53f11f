// The C table: unwraps handles, checks arguments, ends exceptions.
#include <roda/sdk/error.hpp>

#include "transports/shm/context.h"
#include "transports/shm/group.h"
#include "transports/shm/shm.h"

namespace roda::shm {

namespace {

Context& unwrap(roda_context* context) { return *reinterpret_cast<Context*>(context); }
Group& unwrap(roda_group* group) { return *reinterpret_cast<Group*>(group); }
Request* unwrap(roda_request* request) { return reinterpret_cast<Request*>(request); }
Request** unwrap(roda_request** request) { return reinterpret_cast<Request**>(request); }

int32_t invalid(roda_error* error, const char* what) { return sdk::fill(error, RODA_ERR_INVALID, -1, what); }

bool is_member(Group& group, int32_t peer) { return peer >= 0 && peer < group.size(); }

int32_t probe(const roda_host*, roda_error*) { return RODA_OK; }

int32_t context_create(const roda_host* host, roda_context** out, roda_error* error) {
  return sdk::guarded(error, [&] {
    *out = reinterpret_cast<roda_context*>(new Context(host));
    return RODA_OK;
  });
}

void context_destroy(roda_context* context) { delete &unwrap(context); }
uint64_t context_capabilities(roda_context* context) { return unwrap(context).capabilities(); }

int32_t progress(roda_context* context) {
  int32_t handled = 0;
  sdk::guarded(nullptr, [&] {
    handled = unwrap(context).progress();
    return RODA_OK;
  });
  return handled;
}

int32_t event_fd(roda_context* context) { return unwrap(context).event_fd(); }
int32_t arm(roda_context* context) { return unwrap(context).arm() ? RODA_OK : RODA_AGAIN; }
void disarm(roda_context* context) { unwrap(context).disarm(); }

int32_t group_create(roda_context* context, const roda_group_desc* desc, roda_group** out, roda_error* error) {
  *out = nullptr;
  if (desc->size < 1 || desc->rank < 0 || desc->rank >= desc->size) return invalid(error, "shm: no rank of the group");
  if (!unwrap(context).in_owner()) return invalid(error, "shm: a forked child can't use its parent's transport");
  return sdk::guarded(error, [&] {
    *out = reinterpret_cast<roda_group*>(new Group(unwrap(context), *desc));
    return RODA_OK;
  });
}

int32_t group_test(roda_group* group, roda_error* error) {
  return sdk::guarded(error, [&] { return unwrap(group).test(); });
}

void group_abort(roda_group* group, const roda_error* cause) { unwrap(group).abort(sdk::Failure(*cause)); }
void group_destroy(roda_group* group) { delete &unwrap(group); }

// What every operation begins with: the group is sound and formed, the peer one of it.
int32_t admit(Group& group, int32_t peer, roda_error* error) {
  if (int32_t code = group.check(error); code != RODA_OK) return code;
  if (!group.is_formed()) return sdk::fill(error, RODA_ERR_PRECONDITION, -1, "shm: the group is still forming");
  return is_member(group, peer) ? RODA_OK : invalid(error, "shm: no such peer");
}

int32_t send(roda_group* handle, int32_t peer, uint64_t tag, const void* data, size_t bytes, const roda_memory*,
             roda_request** request, roda_error* error) {
  return sdk::guarded(error, [&] {
    Group& group = unwrap(handle);
    int32_t code = admit(group, peer, error);
    return code != RODA_OK ? code : group.messages().send(group.peer(peer), tag, data, bytes, unwrap(request));
  });
}

int32_t recv(roda_group* handle, int32_t peer, uint64_t tag, void* data, size_t bytes, const roda_memory*,
             roda_request** request, roda_error* error) {
  return sdk::guarded(error, [&] {
    Group& group = unwrap(handle);
    int32_t code = admit(group, peer, error);
    return code != RODA_OK ? code : group.messages().recv(group.peer(peer), tag, data, bytes, unwrap(request), error);
  });
}

int32_t request_test(roda_group* handle, roda_request* request, roda_error* error) {
  return sdk::guarded(error, [&] {
    Group& group = unwrap(handle);
    group.check(nullptr);  // ends the request if the group is aborted
    return group.messages().test(unwrap(request), error);
  });
}

uint32_t signal_count(roda_group*) { return kSignals; }

int32_t signal(roda_group* handle, int32_t peer, uint32_t index, uint64_t value, roda_error* error) {
  Group& group = unwrap(handle);
  if (!is_member(group, peer) || index >= kSignals || !group.is_formed()) return invalid(error, "shm: no such signal");
  return group.signal(peer, index, value, error);
}

uint64_t signal_value(roda_group* handle, int32_t peer, uint32_t index) {
  return unwrap(handle).signal_value(peer, index);
}

uint32_t window_count(roda_group*) { return kWindows; }

int32_t window_open(roda_group* handle, uint32_t slot, void* base, size_t bytes, const roda_memory*,
                    roda_error* error) {
  Group& group = unwrap(handle);
  if (int32_t code = group.check(error); code != RODA_OK) return code;
  if (slot >= kWindows) return invalid(error, "shm: no such window");
  group.window_open(slot, base, bytes);
  return RODA_OK;
}

void window_close(roda_group* handle, uint32_t slot) {
  if (slot < kWindows) unwrap(handle).window_close(slot);
}

void* window_map(roda_group* handle, int32_t peer, uint32_t slot) {
  Group& group = unwrap(handle);
  return is_member(group, peer) && slot < kWindows && group.is_formed() ? group.window_map(peer, slot) : nullptr;
}

int32_t get(roda_group* handle, int32_t peer, uint32_t slot, size_t offset, void* to, size_t bytes,
            roda_request** request, roda_error* error) {
  return sdk::guarded(error, [&] {
    Group& group = unwrap(handle);
    int32_t code = admit(group, peer, error);
    if (code == RODA_OK && slot >= kWindows) code = invalid(error, "shm: no such window");
    if (code != RODA_OK) return code;
    return group.messages().get(group.peer(peer), slot, offset, to, bytes, unwrap(request), error);
  });
}

int32_t put(roda_group* handle, int32_t peer, uint32_t slot, size_t offset, const void* from, size_t bytes,
            roda_request** request, roda_error* error) {
  return sdk::guarded(error, [&] {
    Group& group = unwrap(handle);
    int32_t code = admit(group, peer, error);
    if (code == RODA_OK && slot >= kWindows) code = invalid(error, "shm: no such window");
    if (code != RODA_OK) return code;
    return group.messages().put(group.peer(peer), slot, offset, from, bytes, unwrap(request), error);
  });
}

int32_t memory_alloc(roda_group* handle, size_t bytes, roda_memory* memory, roda_error* error) {
  return sdk::guarded(error, [&] {
    Group& group = unwrap(handle);
    if (int32_t code = group.check(error); code != RODA_OK) return code;
    group.memory_alloc(bytes, memory);
    return static_cast<int32_t>(RODA_OK);
  });
}

void memory_free(roda_group* group, roda_memory* memory) { unwrap(group).memory_free(memory); }

int32_t quiesced(roda_group* group, const void* base, size_t bytes) { return unwrap(group).quiesced(base, bytes); }

roda_transport make_table() {
  roda_transport table{};
  table.struct_size = sizeof table;
  table.abi_version = RODA_ABI_VERSION;
  table.name = "shm";
  table.description = "shared memory and cross-memory attach between processes of one host";
  table.progress_mode = RODA_PROGRESS_FD;
  table.capabilities = RODA_CAP_P2P | RODA_CAP_SIGNAL | RODA_CAP_GET | RODA_CAP_PUT | RODA_CAP_MAP | RODA_CAP_ALLOCATE |
                       RODA_CAP_SAME_HOST | RODA_CAP_FAULT_TOLERANT | RODA_CAP_WINDOW_ANY;
  table.probe = probe;
  table.context_create = context_create;
  table.context_destroy = context_destroy;
  table.context_capabilities = context_capabilities;
  table.progress = progress;
  table.event_fd = event_fd;
  table.arm = arm;
  table.disarm = disarm;
  table.group_create = group_create;
  table.group_test = group_test;
  table.group_abort = group_abort;
  table.group_destroy = group_destroy;
  table.send = send;
  table.recv = recv;
  table.request_test = request_test;
  table.signal_count = signal_count;
  table.signal = signal;
  table.signal_value = signal_value;
  table.window_count = window_count;
  table.window_open = window_open;
  table.window_close = window_close;
  table.window_map = window_map;
  table.get = get;
  table.put = put;
  table.memory_alloc = memory_alloc;
  table.memory_free = memory_free;
  table.quiesced = quiesced;
  return table;
}

}  // namespace

}  // namespace roda::shm

const roda_transport* roda_shm_transport() {
  static const roda_transport table = roda::shm::make_table();
  return &table;
}

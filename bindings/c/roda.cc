// roda.h but for roda_submit (submit.cc) and the texts (describe.cc).
#include "bindings/c/roda.h"

#include <algorithm>
#include <cstddef>
#include <cstring>

#include "bindings/c/process.h"
#include "core/bootstrap/rendezvous.h"
#include "core/bootstrap/store_server.h"
#include "core/engine/version.h"
#include "plugins/base/fork_guard.h"
#include "plugins/base/local_address.h"

using roda::EngineRef;
using roda::Process;
using roda::Status;
using roda::engine::HandleState;
using roda::engine::Operation;

namespace {

constexpr int kNotInitialised = -1;
constexpr int kDynamicDisabled = -2;
constexpr int kUnknownSet = -3;
constexpr int kNotMember = -4;
constexpr int kShuttingDown = -5;
constexpr int kSetExists = -6;

template <typename Get>
int32_t topology_number(Get get) {
  const EngineRef engine = Process::get().running();
  return engine ? get(*engine) : kNotInitialised;
}

Status find_handle(roda_handle handle, HandleState** state) {
  if (roda::is_forked_child()) return Status::precondition(roda::kForked);
  *state = Process::get().handles().find(handle);
  if (*state != nullptr) return {};
  return Status::invalid("Handle " + std::to_string(handle) + " was not created or has been cleared.");
}

// Whether the handle is done in that time; -1: without a limit. A handle of an engine before is.
bool is_done_in(HandleState* state, std::int64_t microseconds) {
  if (state->done()) return true;
  const EngineRef engine = Process::get().latest();
  return engine ? engine->wait(state, microseconds) : state->done();
}

// As much of it as the caller knows.
void fill(roda_traffic* traffic, roda_traffic told) {
  told.struct_size = std::min(traffic->struct_size, static_cast<uint32_t>(sizeof told));
  std::memcpy(traffic, &told, told.struct_size);
}

}  // namespace

const char* roda_version(void) { return roda::engine::kVersion; }

int32_t roda_init(const roda_init_options* options, roda_error* error) {
  roda::Members members;
  std::vector<std::vector<std::int32_t>> sets;
  std::uint64_t generation = 0;
  if (options != nullptr) {
    const bool knows_communicators = options->struct_size >= offsetof(roda_init_options, generation);
    if (options->struct_size >= sizeof *options) generation = options->generation;
    if (knows_communicators && options->has_communicator != 0) members.communicator = options->communicator;
    members.ranks.assign(options->ranks, options->ranks + options->num_ranks);
    const int32_t* next = options->process_set_ranks;
    for (int32_t i = 0; i < options->num_process_sets; ++i) {
      sets.emplace_back(next, next + options->process_set_sizes[i]);
      next += options->process_set_sizes[i];
    }
  }
  return Process::get().init(members, std::move(sets), generation).to(error);
}

void roda_shutdown(void) { roda_shutdown_because("called hvd.shutdown()"); }
void roda_shutdown_because(const char* how) { Process::get().shutdown(how); }

void roda_abort(const char* how) {
  if (const EngineRef engine = Process::get().running(); engine.check().ok()) engine->abort(how);
}

int32_t roda_end_cause(roda_error* error) {
  const EngineRef engine = Process::get().latest();
  return engine.check().ok() ? engine->end_cause().to(error) : RODA_OK;
}

int32_t roda_await_process_end(int32_t rank, int64_t microseconds) {
  const EngineRef engine = Process::get().latest();
  const auto ended = engine.check().ok() ? engine->await_process_end(rank, microseconds) : std::optional(true);
  return ended.has_value() ? (*ended ? 1 : 0) : RODA_ERR_UNAVAILABLE;
}
int32_t roda_is_initialized(void) { return Process::get().is_running() ? 1 : 0; }

int32_t roda_rank(void) {
  return topology_number([](const auto& e) { return e.rank(); });
}
int32_t roda_size(void) {
  return topology_number([](const auto& e) { return e.topology().size(); });
}
int32_t roda_local_rank(void) {
  return topology_number([](const auto& e) { return e.topology().rank(e.rank()).local_rank; });
}
int32_t roda_local_size(void) {
  return topology_number([](const auto& e) { return e.topology().local_size(e.rank()); });
}
int32_t roda_cross_rank(void) {
  return topology_number([](const auto& e) { return e.topology().rank(e.rank()).cross_rank; });
}
int32_t roda_cross_size(void) {
  return topology_number([](const auto& e) { return e.topology().cross_size(e.rank()); });
}
int32_t roda_is_homogeneous(void) {
  return topology_number([](const auto& e) { return e.topology().is_homogeneous() ? 1 : 0; });
}
int32_t roda_host_cores(void) {
  return topology_number([](const auto& e) { return e.host_cores(); });
}

int32_t roda_add_process_set(const int32_t* ranks, int32_t count) {
  const EngineRef engine = Process::get().running();
  if (!engine.check().ok()) return kNotInitialised;
  if (!engine->knobs().dynamic_process_sets) return kDynamicDisabled;
  std::vector<std::int32_t> sorted(ranks, ranks + count);
  std::sort(sorted.begin(), sorted.end());
  const bool in_range = !sorted.empty() && sorted.front() >= 0 && sorted.back() < engine->topology().size();
  if (!in_range || std::adjacent_find(sorted.begin(), sorted.end()) != sorted.end()) return RODA_ADD_SET_INVALID;
  if (engine->has_set(sorted)) return kSetExists;
  std::int32_t id = 0;
  const Status status = engine->add_set(std::move(sorted), &id);
  if (status.code() == RODA_ERR_INVALID) return kSetExists;
  return status.ok() ? id : kShuttingDown;
}

int32_t roda_remove_process_set(int32_t id) {
  const EngineRef engine = Process::get().running();
  if (!engine.check().ok()) return kNotInitialised;
  if (!engine->knobs().dynamic_process_sets) return kDynamicDisabled;
  const Status status = id == 0 ? Status::invalid("it is the job's") : engine->remove_set(id);
  if (status.code() == RODA_ERR_INVALID) return kUnknownSet;
  return status.ok() ? id : kShuttingDown;
}

int32_t roda_process_set_rank(int32_t id) {
  const EngineRef engine = Process::get().running();
  if (!engine) return kNotInitialised;
  int size = 0;
  int position = -1;
  if (!engine->find_member(id, engine->rank(), &size, &position)) return kUnknownSet;
  return position < 0 ? kNotMember : position;
}

int32_t roda_process_set_size(int32_t id) {
  const EngineRef engine = Process::get().running();
  if (!engine) return kNotInitialised;
  int size = 0;
  int position = -1;
  return engine->find_member(id, engine->rank(), &size, &position) ? size : kUnknownSet;
}

int32_t roda_process_set_included(int32_t id) {
  const int32_t rank = roda_process_set_rank(id);
  if (rank == kNotMember) return 0;
  return rank < 0 ? rank : 1;
}

int32_t roda_process_set_count(void) {
  const EngineRef engine = Process::get().running();
  return engine ? static_cast<int32_t>(engine->set_ids().size()) : 0;
}

void roda_process_set_ids(int32_t* ids) {
  if (const EngineRef engine = Process::get().running()) {
    const auto known = engine->set_ids();
    std::copy(known.begin(), known.end(), ids);
  }
}

int32_t roda_process_set_ranks(int32_t id, int32_t* ranks) {
  const EngineRef engine = Process::get().running();
  if (!engine) return kNotInitialised;
  const auto members = engine->set_ranks(id);
  std::copy(members.begin(), members.end(), ranks);
  return members.empty() ? kUnknownSet : 0;
}

int32_t roda_poll(roda_handle handle) {
  HandleState* state = nullptr;
  if (Status s = find_handle(handle, &state); !s.ok()) return s.code();
  return state->done() ? 1 : 0;
}

int32_t roda_wait_for(roda_handle handle, int64_t microseconds, roda_error* error) {
  HandleState* state = nullptr;
  if (Status s = find_handle(handle, &state); !s.ok()) return s.to(error);
  return is_done_in(state, microseconds) ? state->first_error.to(error) : RODA_AGAIN;
}

int32_t roda_then(roda_handle handle, roda_done_fn done, void* context, roda_error* error) {
  HandleState* state = nullptr;
  if (Status s = find_handle(handle, &state); !s.ok()) return s.to(error);
  {
    const EngineRef engine = Process::get().latest();
    if (engine && engine->then(state, {done, context, handle})) return RODA_OK;
  }
  done(context, handle);
  Process::get().handles().release(handle);
  return RODA_OK;
}

int32_t roda_wait(roda_handle handle, roda_error* error) { return roda_wait_for(handle, -1, error); }

void roda_note_line(const char* line) {
  const EngineRef engine = Process::get().running();
  if (engine.check().ok()) engine->note_line(line);  // a forked child's line is not its parent's
}

void roda_note_collection(uint64_t nanoseconds) {
  if (const EngineRef engine = Process::get().running()) engine->collected(static_cast<std::int64_t>(nanoseconds));
}

int32_t roda_wait_on_stream(roda_handle handle, void* stream, roda_error* error) {
  HandleState* state = nullptr;
  if (Status s = find_handle(handle, &state); !s.ok()) return s.to(error);
  is_done_in(state, -1);
  if (!state->first_error.ok()) return state->first_error.to(error);
  roda::execute::DeviceEvent* last = nullptr;
  for (const Operation& op : state->operations) {
    if (op.result != nullptr) op.result->used_on(stream);
    if (op.completion == nullptr || op.completion.get() == last) continue;
    last = op.completion.get();
    // The caller has kept its stream since the operation began: a hold by another operation of the bucket holds for
    // this one, too.
    const bool is_kept = op.in_stream_order && op.ready != nullptr && op.ready->stream() == stream;
    if (Status s = is_kept ? last->hold_once(stream) : last->hold(stream); !s.ok()) return s.to(error);
  }
  return RODA_OK;
}

int32_t roda_get_output(roda_handle handle, int32_t index, roda_output* output, roda_error* error) {
  HandleState* state = nullptr;
  if (Status s = find_handle(handle, &state); !s.ok()) return s.to(error);
  if (!state->done()) return Status::precondition("The operation has not ended yet: wait for it first.").to(error);
  if (!state->first_error.ok()) return state->first_error.to(error);
  if (index < 0 || static_cast<std::size_t>(index) >= state->operations.size()) {
    return Status::invalid("The handle has " + std::to_string(state->operations.size()) + " outputs.").to(error);
  }
  Operation& op = state->operations[static_cast<std::size_t>(index)];
  output->ndim = static_cast<int32_t>(op.result_shape.size());
  std::copy(op.result_shape.begin(), op.result_shape.end(), output->shape);
  output->dtype = op.request.dtype;
  output->device = op.request.device;
  output->data = op.output;
  output->owner = op.result.get();
  if (op.result) op.result.get()->retain();
  output->value = op.value;
  output->num_received_splits = static_cast<int32_t>(op.received_splits.size());
  if (output->received_splits != nullptr) {
    const auto n = std::min<std::size_t>(op.received_splits.size(),
                                         static_cast<std::size_t>(std::max(output->received_splits_capacity, 0)));
    std::copy_n(op.received_splits.begin(), n, output->received_splits);
  }
  return RODA_OK;
}

void roda_output_release(void* owner) {
  if (owner == nullptr || roda::is_forked_child()) return;
  static_cast<roda::engine::OutputBlock*>(owner)->release();
}

void roda_release(roda_handle handle) {
  if (!roda::is_forked_child()) Process::get().handles().release(handle);
}

int32_t roda_lend_memory(int32_t process_set, uint64_t bytes, void** data, void** owner, roda_error* error) {
  const EngineRef engine = Process::get().running();
  if (Status s = engine.check(); !s.ok()) return s.to(error);
  roda::execute::LentMemory* memory = nullptr;
  if (Status s = engine->lend(process_set, bytes, &memory); !s.ok()) return s.to(error);
  *data = memory->data();
  *owner = memory;
  return RODA_OK;
}

int32_t roda_reset_wire_residuals(void) {
  const EngineRef engine = Process::get().running();
  if (!engine.check().ok()) return -1;
  engine->reset_wire_residuals();
  return 1;
}

void roda_give_memory_back(void* owner) {
  if (owner != nullptr) static_cast<roda::execute::LentMemory*>(owner)->give_back();
}

struct roda_rendezvous {
  std::unique_ptr<roda::StoreServer> server;
};

int32_t roda_rendezvous_start(const char* address, int32_t port, const void* secret, size_t secret_bytes,
                              roda_rendezvous** server, int32_t* bound_port, roda_error* error) {
  const bool is_given = address != nullptr && address[0] != '\0';
  const std::string host = is_given ? address : roda::loopback_addresses().front().host();
  std::vector<roda::SocketAddress> addresses;
  if (Status s = roda::resolve(host, port, &addresses); !s.ok()) return s.to(error);
  const roda::Secret key(std::span(static_cast<const std::uint8_t*>(secret), secret_bytes));
  auto made = std::make_unique<roda_rendezvous>();
  const Status s = roda::StoreServer::start(addresses.front(), key, {}, &made->server);
  if (!s.ok()) return s.to(error);
  *bound_port = made->server->address().port();
  *server = made.release();
  return RODA_OK;
}

void roda_rendezvous_retire(roda_rendezvous* server, uint64_t generation, const char* reason) {
  server->server->retire(roda::scope_of(generation), Status::aborted(reason));
}

void roda_rendezvous_stop(roda_rendezvous* server) { delete server; }

int32_t roda_control_traffic(roda_traffic* traffic) {
  const EngineRef engine = Process::get().running();
  if (!engine) return kNotInitialised;
  const auto told = engine->control_traffic();
  fill(traffic, {0, told.links, told.sent, told.received, told.bytes, 0});
  return 0;
}

void roda_rendezvous_traffic(const roda_rendezvous* server, roda_traffic* traffic) {
  const auto told = server->server->traffic();
  fill(traffic, {0, static_cast<uint32_t>(told.clients), told.answers, told.requests, told.bytes, told.values});
}

// horovod._roda: roda.h for Python. It takes addresses and integers, never a framework's objects.
#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "bindings/c/roda.h"
#include "bindings/python/src/class.h"
#include "bindings/python/src/errors.h"
#include "bindings/python/src/line.h"
#include "bindings/python/src/outputs.h"
#include "bindings/python/src/requests.h"

namespace roda::python {
namespace {

void init(const std::vector<std::int32_t>& ranks, const std::vector<std::vector<std::int32_t>>& process_sets,
          std::optional<std::int32_t> communicator, std::optional<std::uint64_t> generation) {
  std::vector<std::int32_t> sizes;
  std::vector<std::int32_t> members;
  for (const auto& set : process_sets) {
    sizes.push_back(static_cast<std::int32_t>(set.size()));
    members.insert(members.end(), set.begin(), set.end());
  }
  roda_init_options options = {};
  options.struct_size = sizeof(options);
  options.num_ranks = static_cast<std::int32_t>(ranks.size());
  options.ranks = ranks.data();
  options.num_process_sets = static_cast<std::int32_t>(sizes.size());
  options.process_set_sizes = sizes.data();
  options.process_set_ranks = members.data();
  options.has_communicator = communicator.has_value() ? 1 : 0;
  options.communicator = communicator.value_or(0);
  options.generation = generation.value_or(0);
  roda_error error = make_error();
  std::int32_t code = RODA_OK;
  {
    const Unlocked unlocked;
    code = roda_init(&options, &error);
  }
  check(code, error);
}

void shutdown(const std::optional<std::string>& how) {
  const Unlocked unlocked;
  how.has_value() ? roda_shutdown_because(how->c_str()) : roda_shutdown();
}

void abort(const std::string& how) {
  const Unlocked unlocked;
  roda_abort(how.c_str());
}

Object end_cause() {
  roda_error error = make_error();
  const std::int32_t code = roda_end_cause(&error);
  if (code == RODA_OK) return Object::none();
  const bool is_asked_for = code == RODA_ERR_UNKNOWN;  // by hvd.shutdown()
  return Object::take(PyTuple_Pack(3, from(error.rank).get(), from(error.message).get(), from(is_asked_for).get()));
}

Object await_process_end(std::int32_t rank, std::int32_t microseconds) {
  std::int32_t ended = 0;
  {
    const Unlocked unlocked;
    ended = roda_await_process_end(rank, microseconds);
  }
  return ended < 0 ? Object::none() : from(ended != 0);
}

// --- operations ---

roda_handle submit_group(PyObject* requests, std::uint32_t flags) {
  if (PyList_Check(requests) == 0) {
    PyErr_Format(PyExc_TypeError, "a list of requests is expected, not %R", requests);
    throw PythonError();
  }
  // No Python code runs between here and the end of roda_submit, so one group per thread is enough: in the steady state
  // it allocates nothing.
  thread_local std::vector<roda_op> ops;
  ops.clear();
  const Py_ssize_t count = PyList_Size(requests);
  for (Py_ssize_t i = 0; i < count; ++i) {
    ops.push_back(value_of<Request>(PyList_GetItem(requests, i)).op());
    ops.back().flags = flags | (ops.back().device >= 0 ? static_cast<std::uint32_t>(RODA_OP_IN_STREAM_ORDER) : 0u);
  }
  roda_handle handle = 0;
  roda_error error = make_error();
  check(roda_submit(ops.data(), static_cast<std::int32_t>(ops.size()), &handle, &error), error);
  value_of<Request>(PyList_GetItem(requests, 0)).handle = handle;
  return handle;
}

std::uint32_t flags_of(bool will_wait, bool in_turn) {
  return (will_wait ? static_cast<std::uint32_t>(RODA_OP_WILL_WAIT) : 0u) |
         (in_turn ? static_cast<std::uint32_t>(RODA_OP_IN_TURN) : 0u);
}

roda_handle submit(PyObject* requests, std::optional<bool> will_wait, std::optional<bool> in_turn) {
  return submit_group(requests, flags_of(will_wait.value_or(false), in_turn.value_or(false)));
}

bool poll(roda_handle handle) {
  const std::int32_t state = roda_poll(handle);
  if (state >= 0) return state != 0;
  PyErr_Format(PyExc_ValueError, "Handle %llu was not created or has been cleared.",
               static_cast<unsigned long long>(handle));
  throw PythonError();
}

// Releases the handle, which is done, on every way out.
class DoneHandle {
 public:
  explicit DoneHandle(roda_handle handle) : handle_(handle) {}
  ~DoneHandle() { roda_release(handle_); }
  DoneHandle(const DoneHandle&) = delete;
  DoneHandle& operator=(const DoneHandle&) = delete;

 private:
  roda_handle handle_;
};

// Python's signal handlers run this often while the main thread waits: Ctrl-C ends a wait. One that lasts longer says
// at which line; the others pay nothing for that.
constexpr std::int64_t kSignalsUs = 100'000;
constexpr double kNoLimitS = 1e12;

// `stream`: what a GPU's stream is to wait for the outputs; 0: the tensors are on the host. What a signal handler
// raises, and TimeoutError, come through, and the handle stays as it was: the engine still works on its tensors.
Object finish_group(roda_handle handle, std::int32_t num_outputs, std::uintptr_t stream,
                    std::optional<double> limit_s) {
  roda_error error = make_error();
  std::int32_t code = RODA_OK;
  std::int64_t left_us = static_cast<std::int64_t>(std::min(limit_s.value_or(kNoLimitS), kNoLimitS) * 1e6);
  WaitingLine line;
  while (true) {
    {
      const Unlocked unlocked;
      code = roda_wait_for(handle, std::min(kSignalsUs, left_us), &error);
      if (code == RODA_OK && stream != 0) {
        code = roda_wait_on_stream(handle, reinterpret_cast<void*>(stream), &error);
      }
    }
    if (code != RODA_AGAIN) break;
    line.note();
    if (PyErr_CheckSignals() != 0) throw PythonError();
    left_us -= std::min(kSignalsUs, left_us);
    if (left_us == 0) {
      PyErr_SetString(PyExc_TimeoutError, "The operation is not done, and goes on.");
      throw PythonError();
    }
  }
  const DoneHandle done(handle);
  check(code, error);
  if (num_outputs == 0) return Object::none();
  Object outputs = Object::take(PyList_New(num_outputs));
  for (std::int32_t i = 0; i < num_outputs; ++i) PyList_SetItem(outputs.get(), i, take_output(handle, i).release());
  return outputs;
}

Object finish(roda_handle handle, std::optional<std::int32_t> num_outputs, std::optional<std::uintptr_t> stream,
              std::optional<double> limit_s) {
  return finish_group(handle, num_outputs.value_or(0), stream.value_or(0), limit_s);
}

Object run(PyObject* requests, std::optional<std::int32_t> num_outputs, std::optional<bool> in_turn,
           std::optional<double> limit_s) {
  return finish_group(submit_group(requests, flags_of(true, in_turn.value_or(false))), num_outputs.value_or(0), 0,
                      limit_s);
}

// --- process sets and texts ---

std::int32_t add_process_set(const std::vector<std::int32_t>& ranks) {
  const Unlocked unlocked;
  return roda_add_process_set(ranks.data(), static_cast<std::int32_t>(ranks.size()));
}

std::vector<std::int32_t> process_set_ids() {
  std::vector<std::int32_t> ids(static_cast<std::size_t>(std::max(0, roda_process_set_count())));
  if (!ids.empty()) roda_process_set_ids(ids.data());
  return ids;
}

Object process_set_ranks(std::int32_t id) {
  const std::int32_t size = roda_process_set_size(id);
  // The size is only known to members; a set never has more ranks than the world.
  std::vector<std::int32_t> ranks(static_cast<std::size_t>(std::max({size, roda_size(), 1})), -1);
  if (roda_process_set_ranks(id, ranks.data()) < 0) return Object::none();
  std::erase_if(ranks, [](std::int32_t rank) { return rank < 0; });
  return from(ranks);
}

std::string take_text(char* text) {
  const std::unique_ptr<char, void (*)(char*)> owned(text, roda_free_text);
  return owned ? std::string(owned.get()) : std::string();
}

std::string explain(std::int32_t collective, std::uint64_t bytes, std::optional<std::int32_t> size,
                    std::optional<bool> as_json) {
  roda_error error = make_error();
  char* text = roda_explain(collective, bytes, size.value_or(0), as_json.value_or(false) ? 1 : 0, &error);
  if (text == nullptr) raise_error(error.code, error);
  return take_text(text);
}

template <char* (*kDescribe)(std::int32_t as_json)>
std::string describe(std::optional<bool> as_json) {
  return take_text(kDescribe(as_json.value_or(false) ? 1 : 0));
}

bool is_homogeneous() { return roda_is_homogeneous() > 0; }

bool transport_usable(const std::string& name) { return roda_transport_usable(name.c_str()) > 0; }

bool cuda_usable() { return roda_device_usable(RODA_MEMORY_CUDA) > 0; }

template <auto kName, std::int32_t kCount>
std::vector<std::string> names_by() {
  std::vector<std::string> names;
  for (std::int32_t number = 0; number < kCount; ++number) names.emplace_back(kName(number));
  return names;
}
const char* format_name(std::int32_t format) { return roda_wire_formats[format].name; }
const char* users_name(std::int32_t collective) { return roda_collective_of(collective)->users; }

// --- rendezvous ---

class RendezvousServer {
 public:
  RendezvousServer(const std::string& address, std::int32_t port, PyObject* secret) {
    const std::string bytes = to_bytes(secret);
    roda_error error = make_error();
    check(roda_rendezvous_start(address.c_str(), port, bytes.data(), bytes.size(), &server_, &port_, &error), error);
  }
  ~RendezvousServer() { stop(); }
  RendezvousServer(const RendezvousServer&) = delete;
  RendezvousServer& operator=(const RendezvousServer&) = delete;

  std::int32_t port() const { return port_; }

  void retire(std::uint64_t generation, const std::string& reason) {
    if (server_ != nullptr) roda_rendezvous_retire(server_, generation, reason.c_str());
  }

  void stop() {
    roda_rendezvous* server = std::exchange(server_, nullptr);
    if (server == nullptr) return;
    const Unlocked unlocked;
    roda_rendezvous_stop(server);
  }

 private:
  roda_rendezvous* server_ = nullptr;
  std::int32_t port_ = 0;
};

void add_rendezvous_class(PyObject* module) {
  static PyGetSetDef attributes[] = {attribute<[](const RendezvousServer& server) { return server.port(); }>("port"),
                                     {}};
  static PyMethodDef methods[] = {method<&RendezvousServer::retire>("retire", {"generation", "reason"}),
                                  method<&RendezvousServer::stop>("stop"),
                                  {}};
  add_class<RendezvousServer, std::string, std::int32_t, PyObject*>(
      module, "horovod._roda.RendezvousServer", {"address", "port", "secret"}, attributes, methods,
      "Where the ranks of a job meet; what a launcher runs.");
}

// --- the module ---

PyMethodDef* functions() {
  static PyMethodDef table[] = {
      define<&roda_version>("version"),
      define<&init>("init", {"ranks", "process_sets", "communicator", "generation"},
                    "Start the engine; collective over the job. An empty `ranks` means every rank."),
      define<&shutdown>("shutdown", {"how"},
                        "Stop the engine on all ranks; those that wait are told how this rank came to it."),
      define<&abort>("abort", {"how"}, "End the job on all ranks at once, for this rank's program can't go on."),
      define<&end_cause>("end_cause", {}, "What ended the engine, (rank, text, whether by shutdown()), or None."),
      define<&await_process_end>("await_process_end", {"rank", "microseconds"},
                                 "Whether a rank's process is gone by then; None: nobody here sees its end."),
      define<[] { return roda_thread_has_submitted() != 0; }>("thread_has_submitted"),
      define<[] { return take_text(roda_launcher()); }>("launcher", {},
                                                        "Who started this process as a part of a job, or ''."),
      define<[] { return roda_is_initialized() != 0; }>("is_initialized"),
      define<&roda_rank>("rank"),
      define<&roda_size>("size"),
      define<&roda_local_rank>("local_rank"),
      define<&roda_local_size>("local_size"),
      define<&roda_cross_rank>("cross_rank"),
      define<&roda_cross_size>("cross_size"),
      define<&roda_host_cores>("host_cores", {}, "Cores that the ranks of this host have between them."),
      define<&is_homogeneous>("is_homogeneous"),

      define<&add_process_set>("add_process_set", {"ranks"}, "The set's id, or one of Horovod's negative codes."),
      define<&roda_remove_process_set, Lock::kReleased>("remove_process_set", {"id"}),
      define<&roda_process_set_rank>("process_set_rank", {"id"}),
      define<&roda_process_set_size>("process_set_size", {"id"}),
      define<&roda_process_set_included>("process_set_included", {"id"}),
      define<&process_set_ids>("process_set_ids"),
      define<&process_set_ranks>("process_set_ranks", {"id"}, "The set's world ranks, or None for an unknown set."),

      define<&submit>("submit", {"requests", "will_wait", "in_turn"},
                      "Queue a group of requests; returns the engine's handle. `in_turn`: a name may be in flight."),
      define<&poll>("poll", {"handle"}),
      define<[](roda_handle handle) { return roda_poll(handle) >= 0; }>("is_known", {"handle"}),
      define<&finish>(
          "finish", {"handle", "num_outputs", "stream", "limit_s"},
          "Wait (and have the GPU's `stream` wait for the outputs), collect the first `num_outputs` outputs "
          "that the engine owns as (capsule, splits, value), forget the handle; TimeoutError, and nothing of this, "
          "after `limit_s` seconds."),
      define<&run>("run", {"requests", "num_outputs", "in_turn", "limit_s"},
                   "submit and finish in one call; the first request's `handle` tells the handle."),

      define<&lend_memory>("lend_memory", {"process_set", "bytes"},
                           "A DLPack capsule of bytes in memory that the set's ranks reach, or None."),

      define<&describe<roda_describe_plugins>>("describe_plugins", {"as_json"}),
      define<&describe<roda_describe_knobs>>("describe_knobs", {"as_json"}),
      define<&describe<roda_describe_topology>>("describe_topology", {"as_json"}),
      define<&roda_note_collection>("note_collection", {"nanoseconds"}),
      define<[] { return take_text(roda_describe_straggler()); }>("describe_straggler", {}, "JSON: see roda.h."),
      define<&names_by<roda_dtype_name, RODA_DTYPE_COUNT>>("dtype_names", {},
                                                           "The engine's dtypes, in the order of their numbers."),
      define<&names_by<users_name, RODA_COLLECTIVE_COUNT>>("collective_names", {},
                                                           "What users call the collectives, by their numbers."),
      define<&names_by<format_name, RODA_WIRE_FORMAT_COUNT>>("wire_format_names", {},
                                                             "The wire formats, in the order of their numbers."),
      define<&explain>("explain", {"collective", "bytes", "size", "as_json"}),
      define<&transport_usable>("transport_usable", {"name"}),
      define<&cuda_usable>("cuda_usable"),
      define<[](const std::string& path, std::int32_t mark_cycles) {
        return roda_start_timeline(path.c_str(), mark_cycles);
      },
             Lock::kReleased>("start_timeline", {"path", "mark_cycles"}),
      define<&roda_reset_wire_residuals>("reset_wire_residuals"),
      define<&roda_stop_timeline, Lock::kReleased>("stop_timeline"),
      {}};
  return table;
}

Object make_module() {
  static PyModuleDef definition = {
      PyModuleDef_HEAD_INIT, "_roda", "roda.h for Python.", -1, functions(), nullptr, nullptr, nullptr, nullptr};
  Object module = Object::take(PyModule_Create(&definition));
  add_request_class(module.get());
  add_rendezvous_class(module.get());
  return module;
}

}  // namespace
}  // namespace roda::python

PyMODINIT_FUNC PyInit__roda() { return roda::python::guarded(roda::python::make_module); }

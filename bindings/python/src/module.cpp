// horovod._roda: roda.h for Python. It takes addresses and integers, never a framework's objects.
#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "bindings/c/roda.h"
#include "bindings/python/src/errors.h"
#include "bindings/python/src/outputs.h"
#include "bindings/python/src/requests.h"

namespace nb = nanobind;
using nb::literals::operator""_a;

namespace roda::python {
namespace {

void init(const std::vector<std::int32_t>& ranks, const std::vector<std::vector<std::int32_t>>& process_sets,
          std::optional<std::int32_t> communicator, std::uint64_t generation) {
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
  options.generation = generation;
  roda_error error = make_error();
  std::int32_t code = RODA_OK;
  {
    nb::gil_scoped_release release;
    code = roda_init(&options, &error);
  }
  check(code, error);
}

// --- operations ---

roda_handle submit(nb::list requests, bool will_wait) {
  // No Python code runs between here and the end of roda_submit, so one group per thread is enough: in the steady state
  // it allocates nothing.
  thread_local std::vector<roda_op> ops;
  ops.clear();
  for (const nb::handle request : requests) {
    ops.push_back(nb::cast<const Request&>(request).op());
    ops.back().flags = will_wait ? static_cast<std::uint32_t>(RODA_OP_WILL_WAIT) : 0u;
  }
  roda_handle handle = 0;
  roda_error error = make_error();
  check(roda_submit(ops.data(), static_cast<std::int32_t>(ops.size()), &handle, &error), error);
  nb::cast<Request&>(requests[0]).handle = handle;
  return handle;
}

bool poll(roda_handle handle) {
  const std::int32_t state = roda_poll(handle);
  if (state < 0) {
    roda_error error = make_error();
    PyOS_snprintf(error.message, sizeof(error.message), "Handle %llu was not created or has been cleared.",
                  static_cast<unsigned long long>(handle));
    raise_error(RODA_ERR_INVALID, error);
  }
  return state != 0;
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

// Python's signal handlers run this often while the main thread waits: Ctrl-C ends a wait.
constexpr std::int32_t kSignalsMs = 100;

// `stream`: what a GPU's stream is to wait for the outputs; 0: the tensors are on the host. What a signal handler
// raises comes through, and the handle stays as it was: the engine still works on its tensors.
nb::object finish(roda_handle handle, std::int32_t num_outputs, std::uintptr_t stream) {
  roda_error error = make_error();
  std::int32_t code = RODA_AGAIN;
  while (code == RODA_AGAIN) {
    {
      nb::gil_scoped_release release;
      code = roda_wait_for(handle, kSignalsMs, &error);
      if (code == RODA_OK && stream != 0) {
        code = roda_wait_on_stream(handle, reinterpret_cast<void*>(stream), &error);
      }
    }
    if (code == RODA_AGAIN && PyErr_CheckSignals() != 0) throw nb::python_error();
  }
  const DoneHandle done(handle);
  check(code, error);
  if (num_outputs == 0) return nb::none();
  nb::list outputs;
  for (std::int32_t i = 0; i < num_outputs; ++i) outputs.append(take_output(handle, i));
  return outputs;
}

nb::object run(nb::list requests, std::int32_t num_outputs) { return finish(submit(requests, true), num_outputs, 0); }

// --- process sets and texts ---

std::int32_t add_process_set(const std::vector<std::int32_t>& ranks) {
  nb::gil_scoped_release release;
  return roda_add_process_set(ranks.data(), static_cast<std::int32_t>(ranks.size()));
}

std::vector<std::int32_t> process_set_ids() {
  std::vector<std::int32_t> ids(static_cast<std::size_t>(std::max(0, roda_process_set_count())));
  if (!ids.empty()) roda_process_set_ids(ids.data());
  return ids;
}

nb::object process_set_ranks(std::int32_t id) {
  const std::int32_t size = roda_process_set_size(id);
  // The size is only known to members; a set never has more ranks than the world.
  std::vector<std::int32_t> ranks(static_cast<std::size_t>(std::max({size, roda_size(), 1})), -1);
  if (roda_process_set_ranks(id, ranks.data()) < 0) return nb::none();
  nb::list list;
  for (const std::int32_t rank : ranks) {
    if (rank >= 0) list.append(rank);
  }
  return list;
}

std::string take_text(char* text) {
  const std::unique_ptr<char, void (*)(char*)> owned(text, roda_free_text);
  return owned ? std::string(owned.get()) : std::string();
}

std::string explain(std::int32_t collective, std::uint64_t bytes, std::int32_t size, bool as_json) {
  roda_error error = make_error();
  char* text = roda_explain(collective, bytes, size, as_json ? 1 : 0, &error);
  if (text == nullptr) raise_error(error.code, error);
  return take_text(text);
}

// --- rendezvous ---

class RendezvousServer {
 public:
  RendezvousServer(const std::string& address, std::int32_t port, nb::bytes secret) {
    roda_error error = make_error();
    check(roda_rendezvous_start(address.c_str(), port, secret.c_str(), secret.size(), &server_, &port_, &error), error);
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
    nb::gil_scoped_release release;
    roda_rendezvous_stop(server);
  }

 private:
  roda_rendezvous* server_ = nullptr;
  std::int32_t port_ = 0;
};

void bind_life_cycle(nb::module_& m) {
  m.def("version", [] { return std::string(roda_version()); });
  m.def("init", &init, "ranks"_a, "process_sets"_a, "communicator"_a = nb::none(), "generation"_a = 0,
        "Start the engine; collective over the job. An empty `ranks` means every rank.");
  m.def("shutdown", &roda_shutdown, nb::call_guard<nb::gil_scoped_release>());
  m.def(
      "launcher", [] { return take_text(roda_launcher()); }, "Who started this process as a part of a job, or ''.");
  m.def("is_initialized", [] { return roda_is_initialized() != 0; });
  m.def("rank", &roda_rank);
  m.def("size", &roda_size);
  m.def("local_rank", &roda_local_rank);
  m.def("local_size", &roda_local_size);
  m.def("cross_rank", &roda_cross_rank);
  m.def("cross_size", &roda_cross_size);
  m.def("host_cores", &roda_host_cores, "Cores that the ranks of this host have between them.");
  m.def("is_homogeneous", [] { return roda_is_homogeneous() > 0; });
}

void bind_process_sets(nb::module_& m) {
  m.def("add_process_set", &add_process_set, "ranks"_a, "The set's id, or one of Horovod's negative codes.");
  m.def("remove_process_set", &roda_remove_process_set, "id"_a, nb::call_guard<nb::gil_scoped_release>());
  m.def("process_set_rank", &roda_process_set_rank, "id"_a);
  m.def("process_set_size", &roda_process_set_size, "id"_a);
  m.def("process_set_included", &roda_process_set_included, "id"_a);
  m.def("process_set_ids", &process_set_ids);
  m.def("process_set_ranks", &process_set_ranks, "id"_a, "The set's world ranks, or None for an unknown set.");
}

void bind_operations(nb::module_& m) {
  m.def("submit", &submit, "requests"_a, "will_wait"_a = false,
        "Queue a group of requests; returns the engine's handle.");
  m.def("poll", &poll, "handle"_a);
  m.def(
      "is_known", [](roda_handle handle) { return roda_poll(handle) >= 0; }, "handle"_a);
  m.def("finish", &finish, "handle"_a, "num_outputs"_a = 0, "stream"_a = 0,
        "Wait (and have the GPU's `stream` wait for the outputs), collect the first `num_outputs` outputs that the "
        "engine owns as (capsule, splits, value), forget the "
        "handle.");
  m.def("run", &run, "requests"_a, "num_outputs"_a = 0,
        "submit and finish in one call; the first request's `handle` tells the handle.");
}

void bind_introspection(nb::module_& m) {
  m.def(
      "describe_plugins", [](bool json) { return take_text(roda_describe_plugins(json)); }, "as_json"_a = false);
  m.def(
      "describe_knobs", [](bool json) { return take_text(roda_describe_knobs(json)); }, "as_json"_a = false);
  m.def(
      "describe_topology", [](bool json) { return take_text(roda_describe_topology(json)); }, "as_json"_a = false);
  m.def(
      "dtype_names",
      [] {
        std::vector<std::string> names;
        for (std::int32_t dtype = 0; dtype < RODA_DTYPE_COUNT; ++dtype) names.emplace_back(roda_dtype_name(dtype));
        return names;
      },
      "The engine's dtypes, in the order of their numbers.");
  m.def("explain", &explain, "collective"_a, "bytes"_a, "size"_a = 0, "as_json"_a = false);
  m.def(
      "transport_usable", [](const std::string& name) { return roda_transport_usable(name.c_str()) > 0; }, "name"_a);
  m.def("cuda_usable", [] { return roda_device_usable(RODA_MEMORY_CUDA) > 0; });
  m.def("start_timeline", &roda_start_timeline, "path"_a, "mark_cycles"_a, nb::call_guard<nb::gil_scoped_release>());
  m.def("stop_timeline", &roda_stop_timeline, nb::call_guard<nb::gil_scoped_release>());
  nb::class_<RendezvousServer>(m, "RendezvousServer")
      .def(nb::init<const std::string&, std::int32_t, nb::bytes>(), "address"_a, "port"_a, "secret"_a)
      .def_prop_ro("port", &RendezvousServer::port)
      .def("retire", &RendezvousServer::retire, "generation"_a, "reason"_a)
      .def("stop", &RendezvousServer::stop);
}

}  // namespace
}  // namespace roda::python

NB_MODULE(_roda, m) {
  roda::python::bind_life_cycle(m);
  roda::python::bind_process_sets(m);
  roda::python::bind_request(m);
  roda::python::bind_operations(m);
  roda::python::bind_introspection(m);
}

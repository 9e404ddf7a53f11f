// The texts of roda.h: plugins, settings, topology, plans.
#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "bindings/c/process.h"
#include "bindings/c/roda.h"
#include "core/bootstrap/hosts.h"
#include "core/bootstrap/join.h"
#include "core/engine/engine.h"
#include "core/engine/environment.h"
#include "core/plan/explain.h"
#include "core/topology/exchange.h"
#include "core/topology/json.h"
#include "core/topology/lay_out.h"
#include "plugins/base/format.h"

using roda::Process;
using roda::Status;
using roda::Topology;
using roda::engine::Environment;

namespace {

char* give(const std::string& text) { return strdup(text.c_str()); }

char* refuse(const Status& status, roda_error* error) {
  status.to(error);
  return nullptr;
}

// This process before a job: what it would bring along, with all that can be known of the GPUs.
Status look_alone(Topology* topology) {
  Status status;
  const roda::Knobs knobs = roda::Knobs::from_environment(&status);
  RODA_RETURN_IF_ERROR(status);
  roda::topology::View view;
  roda::topology::DiscoverOptions options;
  options.thorough = true;
  RODA_RETURN_IF_ERROR(roda::topology::look(knobs, options, &view));
  *topology = roda::topology::alone(view, roda::this_host(knobs.hostname).hostname);
  return {};
}

std::string describe(const Topology& topology, bool as_json) {
  if (as_json) return roda::topology::to_json(topology);
  std::string text = roda::topology::print(topology);
  for (const auto& shortage : roda::topology::shortages(topology)) text += shortage.text + "\n";
  return text;
}

bool has_gpus(const Topology& topology) {
  return std::none_of(topology.machines.begin(), topology.machines.end(),
                      [](const auto& named) { return named.machine.gpus.empty(); });
}

// Which kind of memory a query is about: the one that is named, or that of the cluster's GPUs, where something works on
// it.
Status choose_memory(const char* named, const Topology* topology, const roda::engine::Planner& planner,
                     roda::engine::PlanQuery* query) {
  const std::string name = named == nullptr ? "" : named;
  if (!name.empty() && name != "host" && name != "cuda") {
    return Status::invalid("no memory '" + name + "': give host or cuda");
  }
  query->memory_kind = RODA_MEMORY_CUDA;
  const bool is_usual = topology != nullptr && has_gpus(*topology) && planner.carriers().work_on_device(*query);
  if (name == "host" || (name.empty() && !is_usual)) query->memory_kind = RODA_MEMORY_HOST;
  return {};
}

// `topology`: where the ranks are; null: all on one host. `job`: the running one, if it is that which is asked about.
// `memory`: null for the usual one.
char* explain(roda::engine::PlanQuery query, const char* memory, const Topology* topology,
              const roda::engine::Engine* job, std::int32_t as_json, roda_error* error) {
  Status status;
  const roda::Knobs knobs = roda::Knobs::from_environment(&status);
  std::unique_ptr<roda::engine::Planner> planner;
  const bool is_described = topology != nullptr && job == nullptr;
  if (status.ok()) status = Environment::get().make_planner(knobs, {}, &planner, is_described && has_gpus(*topology));
  Topology levelled = topology != nullptr ? *topology : Topology();
  if (status.ok() && topology != nullptr) status = roda::topology::find_levels(knobs.levels, &levelled);
  if (status.ok()) status = choose_memory(memory, topology, *planner, &query);
  if (!status.ok()) return refuse(status, error);
  roda::engine::Shape shape;
  if (topology != nullptr) {
    shape = roda::engine::Shape(levelled.levels, 0);
    query.lie_on(shape);
  }
  if (status.ok()) planner->use_link(job != nullptr ? job->planner().link() : roda::engine::link_of(levelled));
  using roda::engine::Form;
  const Form form = as_json == 0 ? Form::kWords : as_json == 2 ? Form::kChoice : Form::kJson;
  return give(roda::engine::explain(*planner, query, levelled, form));
}

}  // namespace

char* roda_launcher(void) {
  Status status;
  roda::DeclaredJob job;
  const roda::Knobs knobs = roda::Knobs::from_environment(&status);
  if (status.ok()) status = roda::find_declared_job(knobs, std::getenv, &job);
  return give(job.is_ours ? "horovodrun" : job.launcher);
}

char* roda_describe_plugins(int32_t as_json) { return give(Environment::get().describe_plugins(as_json != 0)); }

char* roda_describe_knobs(int32_t as_json) {
  Status status;
  const roda::Knobs knobs = roda::Knobs::from_environment(&status);
  const auto of_plugins = Environment::get().loader().settings();
  if (status.ok()) status = roda::check(of_plugins, std::getenv);
  const std::string text = knobs.describe(as_json != 0, of_plugins);
  return give(status.ok() || as_json != 0 ? text : status.message() + "\n" + text);
}

char* roda_describe_topology(int32_t as_json) {
  if (const auto engine = Process::get().running()) {
    const std::string text = describe(engine->topology(), as_json != 0);
    return give(as_json != 0 ? text : roda::topology::print_rank(engine->topology(), engine->rank()) + text);
  }
  Topology topology;
  if (const Status status = look_alone(&topology); !status.ok()) {
    return give(as_json != 0 ? "{\"error\": " + roda::json_quote(status.message()) + "}" : status.message());
  }
  return give(describe(topology, as_json != 0));
}

char* roda_describe_topology_file(const char* path, int32_t as_json, roda_error* error) {
  Topology topology;
  const Status status = roda::topology::load_file(path, &topology);
  return status.ok() ? give(describe(topology, as_json != 0)) : refuse(status, error);
}

char* roda_describe_straggler(void) {
  const auto engine = Process::get().running();
  if (!engine) return give("{}");
  const auto [number, late] = engine->late_rank();
  if (number == 0) return give("{}");
  return give(roda::format(
      "{{\"number\": {}, \"rank\": {}, \"host\": {}, \"steps\": {}, \"of_steps\": {}, "
      "\"share\": {:.3f}, \"seconds\": {:.6f}, \"before_first\": {}, \"cause\": {}}}",
      number, late.rank, roda::json_quote(engine->topology().host_of(late.rank).name), late.steps, late.of_steps,
      late.share / 1e3, static_cast<double>(late.nanoseconds) / 1e9,
      late.before_first < 0 ? "null" : roda::format("{:.6f}", static_cast<double>(late.before_first) / 1e9),
      roda::json_quote(late.cause.data())));
}

char* roda_explain_memory(const char* memory, const char* topology_file, int32_t collective, uint64_t bytes,
                          int32_t size, int32_t as_json, roda_error* error) {
  roda::engine::PlanQuery query;
  query.collective = collective;
  query.bytes = bytes;
  if (topology_file == nullptr) {
    const auto engine = Process::get().running();
    query.size = size > 0 ? size : (engine ? engine->topology().size() : 1);
    const bool is_this_job = size <= 0 && engine;
    return explain(query, memory, is_this_job ? &engine->topology() : nullptr, is_this_job ? engine.get() : nullptr,
                   as_json, error);
  }
  Topology file, topology;
  Status status = roda::topology::load_file(topology_file, &file);
  if (status.ok()) status = roda::topology::lay_out(file, size, &topology);
  return status.ok() ? explain(query, memory, &topology, nullptr, as_json, error) : refuse(status, error);
}

char* roda_explain(int32_t collective, uint64_t bytes, int32_t size, int32_t as_json, roda_error* error) {
  return roda_explain_memory("host", nullptr, collective, bytes, size, as_json, error);
}

char* roda_explain_on(const char* topology_file, int32_t collective, uint64_t bytes, int32_t size, int32_t as_json,
                      roda_error* error) {
  return roda_explain_memory(nullptr, topology_file, collective, bytes, size, as_json, error);
}

void roda_free_text(char* text) { std::free(text); }

int32_t roda_transport_usable(const char* name) {
  const auto* record = Environment::get().loader().find(name);
  return record != nullptr && record->usable ? 1 : 0;
}

int32_t roda_device_usable(int32_t memory_kind) {
  return memory_kind == RODA_MEMORY_HOST || Environment::get().loader().device_for(memory_kind) != nullptr ? 1 : 0;
}

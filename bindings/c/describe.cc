// The texts of roda.h: plugins, settings, topology, plans.
#include <cstdlib>
#include <cstring>

#include "bindings/c/process.h"
#include "bindings/c/roda.h"
#include "core/engine/environment.h"

using roda::Process;
using roda::Status;
using roda::engine::Environment;

namespace {

char* give(const std::string& text) { return strdup(text.c_str()); }

roda::Topology topology_of_this_process(const roda::Knobs& knobs) {
  roda::RankReport report;
  report.host = roda::this_host(knobs.hostname);
  roda::Topology topology;
  static_cast<void>(roda::compute_topology({report}, 0, &topology));
  return topology;
}

}  // namespace

char* roda_describe_plugins(int32_t as_json) { return give(Environment::get().describe_plugins(as_json != 0)); }

char* roda_describe_knobs(int32_t as_json) {
  Status status;
  const roda::Knobs knobs = roda::Knobs::from_environment(&status);
  const std::string text = knobs.describe(as_json != 0);
  return give(status.ok() || as_json != 0 ? text : status.message() + "\n" + text);
}

char* roda_describe_topology(int32_t as_json) {
  if (const auto* engine = Process::get().running()) return give(engine->topology().describe(as_json != 0));
  Status status;
  return give(topology_of_this_process(roda::Knobs::from_environment(&status)).describe(as_json != 0));
}

char* roda_explain(int32_t collective, uint64_t bytes, int32_t size, int32_t as_json, roda_error* error) {
  Status status;
  const roda::Knobs knobs = roda::Knobs::from_environment(&status);
  std::unique_ptr<roda::engine::Planner> planner;
  if (status.ok()) status = Environment::get().make_planner(knobs, &planner);
  if (!status.ok()) {
    status.to(error);
    return nullptr;
  }
  const auto* engine = Process::get().running();
  roda::engine::PlanQuery query;
  query.collective = collective;
  query.bytes = bytes;
  query.size = size > 0 ? size : (engine != nullptr ? engine->topology().size : 1);
  query.columns = query.longest = query.row_size = query.size;
  if (size <= 0 && engine != nullptr) {
    const auto& topology = engine->topology();
    const roda::engine::Shape shape(topology.host_of, topology.rank);
    query.hosts = shape.rows();
    query.columns = shape.columns();
    query.longest = shape.longest();
    query.row_size = shape.row_size();
  }
  return give(roda::engine::explain(*planner, query, as_json != 0));
}

void roda_free_text(char* text) { std::free(text); }

int32_t roda_transport_usable(const char* name) {
  const auto* record = Environment::get().loader().find(name);
  return record != nullptr && record->usable ? 1 : 0;
}

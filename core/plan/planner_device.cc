// Planner: what carries tensors on devices. What works on their memory comes first: a library's own collective, or a
// composition with such parts; then everything that works in host memory, to which the data are copied and back.
#include <algorithm>

#include "algorithms/select/names.h"
#include "core/execute/schedule/program.h"
#include "core/plan/planner.h"

namespace roda::engine {
namespace {

bool works_on(const roda_transport* t, const PlanQuery& q) {
  return (t->capabilities & RODA_CAP_NATIVE) != 0 && t->collective_supported != nullptr &&
         t->collective_supported(nullptr, q.collective, q.dtype, q.op, q.memory_kind) == 1;
}

bool reaches(const roda_transport* t, const PlanQuery& q) {
  return (t->capabilities & RODA_CAP_SAME_HOST) == 0 || q.hosts <= 1;
}

// The same tensors in host memory.
PlanQuery in_host_memory(const PlanQuery& q) {
  PlanQuery host = q;
  host.memory_kind = RODA_MEMORY_HOST;
  if (host.op == RODA_AVERAGE) host.op = RODA_SUM;
  return host;
}

bool is_by_messages(int collective, const std::string& name) {
  const auto* algorithm = schedule::find_algorithm(static_cast<schedule::Collective>(collective), name);
  return algorithm != nullptr && !execute::one_sided(algorithm->needs);
}

// A transport whose messages may take devices' memory has its schedules of messages first: windows would have to be
// opened over host memory. The order among transports stays.
void prefer_messages(const Planner::Transports& transports, int collective, std::vector<select::Verdict>* verdicts) {
  for (const roda_transport* t : transports) {
    if (t->memory_kinds == nullptr || (t->capabilities & RODA_CAP_P2P) == 0) continue;
    std::vector<select::Verdict*> places;
    std::vector<select::Verdict> own;
    for (select::Verdict& v : *verdicts) {
      if (v.option.transport != t->name || !v.usable) continue;
      places.push_back(&v);
      own.push_back(v);
    }
    std::stable_partition(own.begin(), own.end(),
                          [&](const select::Verdict& v) { return is_by_messages(collective, v.option.algorithm); });
    for (std::size_t i = 0; i < own.size(); ++i) *places[i] = own[i];
  }
}

// Whether it can carry anything that lies in host memory.
bool serves_host(const roda_transport* t, const PlanQuery& host) {
  return (t->capabilities & (RODA_CAP_P2P | RODA_CAP_SIGNAL | RODA_CAP_GET | RODA_CAP_PUT)) != 0 || works_on(t, host);
}

}  // namespace

const DeviceChoice& Planner::on_device(int collective) const {
  const bool is_adasum = collective == RODA_ADASUM_ALLREDUCE;
  const auto found =
      options_.on_device.find(static_cast<schedule::Collective>(is_adasum ? int{RODA_ALLREDUCE} : collective));
  if (found != options_.on_device.end()) return found->second;
  static const DeviceChoice none;
  return none;
}

const roda_transport* Planner::transport_named(const std::string& name) const {
  const auto is_it = [&](const roda_transport* t) { return name == t->name; };
  if (const auto t = std::find_if(transports_.begin(), transports_.end(), is_it); t != transports_.end()) return *t;
  for (const auto& [collective, choice] : options_.on_device) {
    const auto& those = choice.transports;
    if (const auto t = std::find_if(those.begin(), those.end(), is_it); t != those.end()) return *t;
  }
  return nullptr;
}

bool Planner::adds_on_device(const PlanQuery& q) const {
  PlanQuery scatter = q, gather = q;
  scatter.collective = RODA_REDUCESCATTER;
  gather.collective = RODA_ALLGATHER;
  scatter.op = gather.op = RODA_SUM;
  return q.memory_kind != RODA_MEMORY_HOST && works_on_device(scatter) && works_on_device(gather);
}

bool Planner::works_on_device(const PlanQuery& q) const {
  const auto& those = on_device(q.collective).transports;
  return std::any_of(those.begin(), those.end(), [&](const roda_transport* t) { return works_on(t, q); });
}

std::vector<select::Verdict> Planner::device_candidates(const PlanQuery& q) const {
  const DeviceChoice& choice = on_device(q.collective);
  std::vector<select::Offer> offers;
  for (const roda_transport* t : choice.transports) {
    if (!reaches(t, q) || !works_on(t, q)) continue;
    select::Offer offer;
    offer.transport = t->name;
    offer.native = true;
    offers.push_back(std::move(offer));
  }
  select::Offer levels;
  levels.transport = select::kLevels;
  for (const char* name : {"hierarchical", "two_step", "torus", "between_hosts"}) {
    if (select::is_composition(static_cast<schedule::Collective>(q.collective), name)) {
      levels.compositions[name] = device_obstacle(q, name);
    }
  }
  offers.push_back(std::move(levels));
  std::vector<select::Verdict> verdicts = table_.rank(table_query(q), offers);
  // Schedules work in host memory: they are spoken of below.
  std::erase_if(verdicts, [](const select::Verdict& v) {
    return v.option.transport != select::kLevels && v.option.algorithm != select::kNative;
  });
  if (choice.composes) {
    std::stable_partition(verdicts.begin(), verdicts.end(),
                          [&](const select::Verdict& v) { return comes_first(q, v); });
  }
  for (select::Verdict& v : staged_candidates(q)) {
    const bool is_known = std::any_of(verdicts.begin(), verdicts.end(), [&](const select::Verdict& known) {
      return known.usable && known.option == v.option;
    });
    if (!is_known) verdicts.push_back(std::move(v));
  }
  return verdicts;
}

// A composition, where that is asked for. Names of transports alone ask for none where every rank is alone on its host.
bool Planner::comes_first(const PlanQuery& q, const select::Verdict& v) const {
  if (v.option.transport != select::kLevels) return false;
  const bool is_lonely = q.shape != nullptr && q.shape->grid(v.option.algorithm).lonely_axis() >= 0;
  return !is_lonely || (is_asked_for(q.collective) && (q.hosts > 1 || on_device(q.collective).is_mixed));
}

// What carries staged data, all of it: what was named for devices, not what was named for host memory.
Planner::Transports Planner::staging_transports(const PlanQuery& q) const {
  const PlanQuery host = in_host_memory(q);
  Transports transports = on_device(q.collective).transports;
  std::erase_if(transports, [&](const roda_transport* t) { return !serves_host(t, host); });
  return transports;
}

std::vector<select::Verdict> Planner::staged_candidates(const PlanQuery& q) const {
  const PlanQuery host = in_host_memory(q);
  const Transports transports = staging_transports(q);
  std::vector<select::Verdict> verdicts = host_candidates(host, transports);
  prefer_messages(transports, q.collective, &verdicts);
  for (select::Verdict& v : verdicts) v.reason = (v.usable ? "staged through host memory, " : "") + v.reason;
  return verdicts;
}

// Of one stage of a composition. Outside hosts comes something else than what serves inside them: that could have
// carried the whole.
std::vector<select::Verdict> Planner::stage_candidates(const PlanQuery& part, bool is_outside, const Plan& plan) const {
  const Transports& all = on_device(static_cast<int>(plan.composition.collective)).transports;
  const auto inside = std::find_if(all.begin(), all.end(), [&](const roda_transport* t) { return works_on(t, part); });
  std::vector<select::Verdict> verdicts;
  Transports others;
  for (const roda_transport* t : all) {
    if (is_outside && inside != all.end() && t == *inside) continue;
    others.push_back(t);
    if (reaches(t, part) && works_on(t, part)) {
      verdicts.push_back({{t->name, select::kNative}, true, "works on the devices' memory"});
    }
  }
  const auto add_staged = [&](const Transports& transports) {
    std::vector<select::Verdict> found = host_candidates(in_host_memory(part), transports);
    prefer_messages(transports, part.collective, &found);
    for (select::Verdict& v : found) {
      // Two stages of one group would have to keep an order that copies do not keep.
      const bool keeps_order = v.option.algorithm != select::kNative || part.collective == RODA_ALLREDUCE;
      if (v.option.transport != select::kLevels && keeps_order) verdicts.push_back(std::move(v));
    }
  };
  add_staged(others);
  add_staged(transports_);
  return verdicts;
}

std::string Planner::device_obstacle(const PlanQuery& q, const std::string& composition) const {
  if (composition == "two_step") return "not composed on devices";
  if (q.shape == nullptr) return "all ranks are on one host";
  if (std::string missing = q.shape->missing(composition); !missing.empty()) return missing;
  const plan::Grid& grid = q.shape->grid(composition);
  if (grid.axes_in_use().size() < 2 && grid.lonely_axis() < 0) return "all ranks are on one host";
  if (std::string reason = adasum_obstacle(q); !reason.empty()) return reason;
  Plan plan;
  if (const Status s = compose(q, composition, transports_, &plan); !s.ok()) return s.message();
  if (const std::string reason = routes_obstacle(q, plan); !reason.empty()) return reason;
  const bool any_works = std::any_of(plan.stages.begin(), plan.stages.end(), [](const auto& s) { return !s.staged; });
  return any_works ? "" : "nothing of it works on the devices' memory";
}

Plan Planner::device_plan_of(const PlanQuery& q, const select::Option& option) const {
  Plan plan;
  if (option.transport == select::kLevels) {
    if (device_obstacle(q, option.algorithm).empty()) {
      static_cast<void>(compose(q, option.algorithm, transports_, &plan));
      return plan;
    }
    plan = host_plan_of(in_host_memory(q), option, staging_transports(q));
  } else {
    plan.stages = {{q.collective, transport_named(option.transport), option.algorithm}};
    plan.places = {""};
  }
  const bool is_native = option.algorithm == select::kNative && plan.stages.size() == 1;
  plan.staged = !is_native || !works_on(plan.stages.front().transport, q);
  return plan;
}

}  // namespace roda::engine

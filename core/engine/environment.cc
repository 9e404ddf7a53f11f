#include "core/engine/environment.h"

#include <algorithm>
#include <cstdlib>
#include <nlohmann/json.hpp>

#include "algorithms/schedule/format.h"
#include "algorithms/select/table.h"
#include "core/plan/carriers.h"
#include "core/plan/user_algorithms.h"
#include "plugins/base/log.h"
#include "plugins/devices/cpu/cpu_device.h"

namespace roda::engine {
namespace {

void write_log(int level, const char* component, const char* text) {
  const auto l = static_cast<logging::Level>(level);
  if (logging::enabled(l)) logging::write_text(l, component, 0, text);
}

bool is_among(const std::vector<std::string>& names, const std::string& name) {
  return std::ranges::find(names, name) != names.end();
}

// A rule may list fallbacks; one that names only transports that can't run is a wish that can't be met.
Status check_rules(const select::Table& user, const Offer& offer, const std::string& named) {
  const std::vector<std::string> allowed = names_in(named);
  for (const select::Table::Rule& rule : user.rules()) {
    std::string refused;
    bool can_run = false;
    for (std::size_t i = 0; i < rule.options.size(); ++i) {
      if (rule.forbidden[i]) continue;
      const std::string& name = rule.options[i].transport;
      const bool is_one = name != select::kAnyTransport && name != select::kLevels;
      std::string reason = is_one ? offer.why_unusable(name) : "";
      if (reason.empty() && is_one && !named.empty() && !is_among(allowed, name)) {
        reason = "which HOROVOD_CPU_OPERATIONS=" + named + " leaves out";
      }
      can_run = can_run || reason.empty();
      refused += (refused.empty() ? "'" : "; '") + name + "', " + reason;
    }
    if (can_run || refused.empty()) continue;
    return Status::unavailable(std::string("HOROVOD_SELECT names for ") + schedule::collective_name(rule.collective) +
                               " the transport " + refused);
  }
  return {};
}

// What no number of ranks brings below the bound.
Status check_bounds(const select::Table& user, double bound) {
  for (const select::Table::Rule& rule : user.rules()) {
    for (std::size_t i = 0; i < rule.options.size(); ++i) {
      const schedule::Algorithm* found = schedule::find_algorithm(rule.collective, rule.options[i].algorithm);
      if (rule.forbidden[i] || found == nullptr || found->format == RODA_WIRE_NONE) continue;
      const int least = schedule::fewest_roundings(rule.collective);
      const std::string reason = schedule::beyond_bound(bound, found->format, least);
      if (!reason.empty()) return Status::invalid("HOROVOD_SELECT: " + rule.options[i].text() + ": " + reason);
    }
  }
  return {};
}

}  // namespace

Environment& Environment::get() {
  static auto* environment = new Environment;
  return *environment;
}

Environment::Environment() : host_(write_log, roda_cpu_device()), loader_(*host_.table()) { loader_.scan(); }

Refusals Environment::refusals(int ranks) {
  Refusals refused;
  for (const plugins::PluginRecord* record : loader_.records()) {
    if (record->transport == nullptr || record->transport->suits == nullptr) continue;
    roda_error error = make_error();
    const Status status = Status::from(record->transport->suits(host(), ranks, &error), error);
    if (!status.ok()) refused[record->name] = status;
  }
  return refused;
}

Status Environment::make_planner(const Knobs& knobs, const Refusals& refused, std::unique_ptr<Planner>* planner,
                                 bool for_gpus) {
  RODA_RETURN_IF_ERROR(check(loader_.settings(), std::getenv));
  const Offer offer{loader_, refused, for_gpus};
  const std::vector<std::string> named = names_in(knobs.cpu_operations);
  if (const auto signs = std::ranges::count(knobs.cpu_operations, '+');
      signs > 0 && static_cast<std::size_t>(signs) >= named.size()) {
    return Status::invalid("HOROVOD_CPU_OPERATIONS='" + knobs.cpu_operations + "' lacks a name beside a '+'");
  }
  for (const std::string& name : named) {
    const std::string reason = offer.why_unusable(name);
    if (reason.empty()) continue;
    return Status::unavailable("HOROVOD_CPU_OPERATIONS names the transport '" + name + "', " + reason);
  }
  std::string schedules;
  const std::string rules = without_schedules(knobs.select, &schedules);
  RODA_RETURN_IF_ERROR(load_user_algorithms(schedules));
  Planner::Policy options;
  options.compositions.always_hierarchical_allreduce = knobs.hierarchical_allreduce;
  options.compositions.always_hierarchical_allgather = knobs.hierarchical_allgather;
  options.compositions.hierarchical_adasum = knobs.hierarchical_adasum;
  options.terms.in_rank_order = knobs.deterministic;
  options.terms.most_error = knobs.wire_bound.value_or(options.terms.most_error);
  options.assumptions = offer.assumptions();
  select::Table table = select::Table::defaults();
  if (knobs.torus_allreduce) {
    std::string error;
    table = table.overridden_by(*select::Table::parse("allreduce = levels/torus", &error));
  }
  if (!rules.empty()) {
    std::string error;
    const auto user = select::Table::parse(rules, &error);
    if (!user.has_value()) return Status::invalid("HOROVOD_SELECT is malformed: " + error);
    RODA_RETURN_IF_ERROR(check_rules(*user, offer, knobs.cpu_operations));
    RODA_RETURN_IF_ERROR(check_bounds(*user, options.terms.most_error));
    table = table.overridden_by(*user);
  }
  std::vector<const roda_transport*> usable;  // now that all that is named is opened
  for (const plugins::PluginRecord* record : loader_.records()) {
    if (record->transport != nullptr && !refused.contains(record->name)) usable.push_back(record->transport);
  }
  auto for_host = in_order_of_preference(std::move(usable), named);
  RODA_RETURN_IF_ERROR(choose_for_devices(knobs, offer, for_host, &options.on_device));
  *planner = std::make_unique<Planner>(std::move(table), std::move(for_host), std::move(options));
  return {};
}

Status Environment::named_bootstrap(const std::string& name, const roda_bootstrap** bootstrap) {
  const plugins::PluginRecord* record = loader_.find(name);
  if (record != nullptr && record->bootstrap != nullptr) {
    *bootstrap = record->bootstrap;
    return {};
  }
  const std::string reason = record == nullptr ? "there is no plugin of that name"
                             : !record->usable ? "that plugin can't be used here: " + record->reason
                                               : "that plugin can't bring a job together";
  return Status::invalid("Unsupported controller type: HOROVOD_CONTROLLER='" + name + "': " + reason);
}

Status Environment::find_bootstrap(const Knobs& knobs, const Members& members, const DeclaredJob& declared,
                                   const roda_bootstrap** bootstrap) {
  *bootstrap = nullptr;
  const bool is_others = declared.size > 1 && members.is_everybody();
  const bool is_placed = declared.is_ours || (declared.is_innermost && members.is_everybody());
  const bool is_named = !knobs.controller.empty() && !knobs.names_own_rendezvous();
  const roda_bootstrap* found = nullptr;
  if (is_named) {
    RODA_RETURN_IF_ERROR(named_bootstrap(knobs.controller, &found));
    if (found->launched_here(host()) == 0) {
      if (is_placed || is_others) {
        return Status::invalid("HOROVOD_CONTROLLER='" + knobs.controller +
                               "', but another launcher started this process: unset it, or start the job with that "
                               "controller's launcher");
      }
      if (members.is_everybody()) found = nullptr;  // a job of one process
    }
  } else if (knobs.controller.empty() && !is_placed) {
    for (const plugins::PluginRecord* record : loader_.records()) {
      const bool can = found == nullptr && record->bootstrap != nullptr;
      if (can && record->bootstrap->launched_here(host()) != 0) found = record->bootstrap;
    }
  }
  if (found == nullptr && members.communicator.has_value()) {
    return Status::invalid(
        "init was given a communicator, but no plugin that could use it brings this job together: "
        "`roda-info` says which plugins are usable, and why others are not");
  }
  *bootstrap = found;
  return {};
}

std::string Environment::describe_plugins(bool as_json) {
  loader_.open_all();
  if (as_json) {
    nlohmann::json j;
    j["search_path"] = plugins::Loader::search_path();
    j["plugins"] = nlohmann::json::array();
    for (const plugins::PluginRecord* r : loader_.records()) {
      j["plugins"].push_back({{"name", r->name},
                              {"kind", r->kind},
                              {"path", r->path},
                              {"abi_version", r->abi_version},
                              {"description", r->description},
                              {"usable", r->usable},
                              {"reason", r->reason}});
    }
    return j.dump(2);
  }
  std::string text = loader_.records().empty() ? "  none found\n" : "";
  for (const plugins::PluginRecord* r : loader_.records()) {
    text += roda::format("  {:<9} {:<10}  {}\n", r->name, r->usable ? "usable" : "not usable",
                         r->usable ? r->description : r->reason);
  }
  return text + roda::format("  looked for in: {}\n", roda::join(plugins::Loader::search_path(), " "));
}

}  // namespace roda::engine

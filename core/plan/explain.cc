#include "core/plan/explain.h"

#include <algorithm>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <sstream>
#include <utility>
#include <vector>

#include "algorithms/schedule/format.h"
#include "algorithms/schedule/schedule.h"
#include "algorithms/schedule/user.h"
#include "algorithms/select/table.h"
#include "core/topology/json.h"
#include "plugins/base/format.h"

namespace roda::engine {
namespace {

// One candidate, as both forms tell it.
struct Row {
  select::Verdict verdict;
  bool is_chosen = false;
  Plan plan;  // of a usable one
};

std::vector<Row> rows_of(const Planner& planner, const PlanQuery& q) {
  std::vector<Row> rows;
  bool has_chosen = false;
  for (const select::Verdict& verdict : planner.candidates(q)) {
    Row& row = rows.emplace_back();
    row.verdict = verdict;
    if (!verdict.usable) continue;
    row.is_chosen = !has_chosen;
    has_chosen = true;
    row.plan = planner.plan_of(q, verdict.option);
  }
  return rows;
}

const Row* chosen(const std::vector<Row>& rows) {
  const auto found = std::ranges::find_if(rows, [](const Row& row) { return row.is_chosen; });
  return found == rows.end() ? nullptr : &*found;
}

const char* memory_name(const PlanQuery& q) { return q.memory_kind == RODA_MEMORY_HOST ? "host" : "cuda"; }

std::string fate(const Row& row) {
  if (!row.verdict.usable) return "not usable: " + row.verdict.reason;
  return (row.is_chosen ? "runs: " : "in reserve: ") + row.verdict.reason;
}

nlohmann::json json_of(const Plan& plan, std::size_t number) {
  const PlanStage& stage = plan.stages[number];
  const std::string& place = plan.places[number];
  nlohmann::json j{{"staged", stage.staged},
                   {"where", place.empty() ? "all" : place},
                   {"collective", roda_collective_name(stage.collective)},
                   {"transport", stage.transport->name},
                   {"algorithm", stage.algorithm_name()},
                   {"serves_one_host", (stage.transport->capabilities & RODA_CAP_SAME_HOST) != 0}};
  if (plan.is_composed()) j["axis"] = plan.composition.stages[number].axis;
  return j;
}

nlohmann::json stages_of(const Plan& plan) {
  nlohmann::json stages = nlohmann::json::array();
  for (std::size_t number = 0; number < plan.stages.size(); ++number) stages.push_back(json_of(plan, number));
  return stages;
}

nlohmann::json json_of(const Row& row) {
  nlohmann::json j{{"transport", row.verdict.option.transport},
                   {"algorithm", row.verdict.option.algorithm},
                   {"usable", row.verdict.usable},
                   {"chosen", row.is_chosen},
                   {"reason", row.verdict.reason}};
  if (row.verdict.usable) j["stages"] = stages_of(row.plan);
  return j;
}

// {"name": "host", "units": [[0, 8], [1, 8]]}: the first 8 ranks are in unit 0, the next 8 in unit 1.
nlohmann::json json_of(const topology::Level& level) {
  std::vector<std::pair<std::int32_t, std::int32_t>> runs;
  for (const std::int32_t unit : level.units) {
    if (runs.empty() || runs.back().first != unit) runs.emplace_back(unit, 0);
    ++runs.back().second;
  }
  return {{"name", level.name}, {"units", runs}};
}

// Gbit/s of the fastest network device of the machine, and whether it is InfiniBand.
std::pair<double, bool> fastest_device(const topology::Machine& machine) {
  std::pair<double, bool> fastest{0, false};
  for (const topology::Nic& nic : machine.nics) {
    if (nic.is_up && nic.speed_mbit > 0) fastest = std::max(fastest, {nic.speed_mbit / 1e3, false});
  }
  for (const topology::RdmaDevice& device : machine.rdma_devices) {
    for (const topology::RdmaPort& port : device.ports) {
      if (port.is_active) fastest = std::max(fastest, {port.rate_mbit / 1e3, port.link_layer == "InfiniBand"});
    }
  }
  return fastest;
}

// The network between several hosts is as fast as the slowest host's fastest device. nullopt: one host, or none known.
std::optional<std::pair<double, bool>> slowest_device(const Topology& topology) {
  std::optional<std::pair<double, bool>> slowest;
  for (const topology::Host& host : topology.hosts) {
    const auto fastest = fastest_device(topology.machines[static_cast<std::size_t>(host.machine)].machine);
    if (fastest.first > 0) slowest = slowest ? std::min(*slowest, fastest) : fastest;
  }
  return topology.hosts.size() < 2 ? std::nullopt : slowest;
}

nlohmann::json network_of(const Topology& topology) {
  const auto slowest = slowest_device(topology);
  if (!slowest) return nullptr;
  return {{"Gbit_s", slowest->first}, {"is_infiniband", slowest->second}};
}

// Where formats could run, whether they were asked for or not: which win on which links.
std::string break_evens(const PlanQuery& q, const topology::Link& link) {
  const bool can_have = schedule::can_have_format(static_cast<schedule::Collective>(q.collective));
  if (q.hosts < 2 || !can_have || q.dtype != RODA_FLOAT32 || q.memory_kind != RODA_MEMORY_HOST) return "";
  return roda::format("wire formats take 10 % less time between hosts on slower links ({} core{} each): {}; {}",
                      link.cores, link.cores == 1 ? "" : "s", topology::break_evens(link.cores), topology::speed(link));
}

// The steps of one rank, line by line: of this one, or where it is none of the ranks, of the first.
std::vector<std::string> steps_of(const Plan& plan, const Shape& shape) {
  std::shared_ptr<const schedule::Program> program;
  std::vector<std::string> lines;
  if (!program_of(plan, shape, std::max(shape.self(), 0), 0, &program).ok()) return lines;
  std::istringstream text(to_text(*program));
  for (std::string line; std::getline(text, line);) lines.push_back(line);
  return lines;
}

std::string in_words(const Formats& formats) {
  return roda::format(
      "{}: a rank sends {} bytes for {}; what it contributes is rounded {} times at most, so sums are off by at most "
      "{:.2g} of what the ranks' largest magnitudes in the block add up to",
      formats.names, formats.sent, formats.meant, formats.roundings, formats.bound);
}

nlohmann::json choice_of(const std::vector<Row>& rows, const PlanQuery& q, const Topology& topology) {
  nlohmann::json j{{"collective", roda_collective_name(q.collective)},
                   {"memory", memory_name(q)},
                   {"bytes", q.bytes},
                   {"ranks", q.size},
                   {"hosts", q.hosts},
                   {"same_host", q.hosts <= 1}};
  if (const Row* best = chosen(rows); best != nullptr) {
    j["staged"] = best->plan.staged;
    j["stages"] = stages_of(best->plan);
    j["runs"] = {{"transport", best->verdict.option.transport}, {"algorithm", best->verdict.option.algorithm}};
  }
  for (const topology::Level& level : topology.levels) j["levels"].push_back(json_of(level));
  return j;
}

std::string as_json(const std::vector<Row>& rows, const PlanQuery& q, const Topology& topology,
                    const std::vector<std::string>& assumptions, const topology::Link& link) {
  nlohmann::json j = choice_of(rows, q, topology);
  const Row* best = chosen(rows);
  if (const Formats formats = best == nullptr ? Formats() : formats_of(best->plan, q); !formats.names.empty()) {
    j["formats"] = {{"names", formats.names},         {"bytes_meant", formats.meant}, {"bytes_sent", formats.sent},
                    {"roundings", formats.roundings}, {"error_bound", formats.bound}, {"text", in_words(formats)}};
  }
  if (best != nullptr && best->plan.is_composed()) j["schedule"] = steps_of(best->plan, *q.shape);
  j["network"] = network_of(topology);
  if (const std::string text = break_evens(q, link); !text.empty()) j["break_even"] = text;
  j["candidates"] = nlohmann::json::array();
  for (const Row& row : rows) j["candidates"].push_back(json_of(row));
  for (const auto& algorithm : schedule::user_algorithms()) {
    if (static_cast<int>(algorithm->collective()) != q.collective) continue;
    j["own"].push_back({{"algorithm", algorithm->name()},
                        {"source", algorithm->source()},
                        {"reason", algorithm->wrong_with(q.size).value_or("")}});
  }
  if (!assumptions.empty()) j["assumed_usable"] = assumptions;
  return j.dump(2);
}

// The algorithms that the user brought, whether a rule names them or not.
std::string own_algorithms(const PlanQuery& q) {
  std::string text;
  for (const auto& algorithm : schedule::user_algorithms()) {
    if (static_cast<int>(algorithm->collective()) != q.collective) continue;
    const auto wrong = algorithm->wrong_with(q.size);
    text += roda::format("  of your own: {} ({}): {}\n", algorithm->name(), algorithm->source(),
                         wrong ? *wrong : roda::format("proved for {} ranks", q.size));
  }
  return text;
}

std::string in_words(const std::vector<Row>& rows, const PlanQuery& q, const std::vector<std::string>& assumptions,
                     const topology::Link& link) {
  std::string text =
      roda::format("{} of {} bytes of {}{} over {} rank{}{}:\n", roda_collective_name(q.collective), q.bytes,
                   roda_dtype_name(q.dtype), q.memory_kind == RODA_MEMORY_HOST ? "" : " on GPUs", q.size,
                   q.size == 1 ? "" : "s", q.hosts <= 1 ? " of one host" : roda::format(" on {} hosts", q.hosts));
  if (q.size == 1) text += "  one rank: nothing travels, the input is copied to the output\n";
  for (const Row& row : rows) {
    const select::Option& option = row.verdict.option;
    text += roda::format("  {} {}/{}  {}\n", row.is_chosen ? ">" : " ", option.transport, option.algorithm, fate(row));
    if (row.plan.stages.size() > 1) text += "      " + row.plan.describe() + "\n";
    const Formats formats = row.is_chosen ? formats_of(row.plan, q) : Formats();
    if (!formats.names.empty()) text += "      " + in_words(formats) + "\n";
    if (!row.is_chosen || !row.plan.is_composed()) continue;
    for (const std::string& line : steps_of(row.plan, *q.shape)) text += "      " + line + "\n";
  }
  if (chosen(rows) == nullptr) text += "  nothing can run this\n";
  if (const std::string even = break_evens(q, link); !even.empty()) text += "  " + even + "\n";
  for (const std::string& reason : assumptions) {
    text += "  taken to be usable there, though not on this machine: " + reason + "\n";
  }
  return text + own_algorithms(q);
}

std::string size_text(std::size_t bytes) {
  return bytes % 1024 != 0 ? roda::format("{} B", bytes) : topology::size_text(static_cast<std::int64_t>(bytes / 1024));
}

}  // namespace

std::string by_size(Planner* planner, PlanQuery q) {
  std::string text, before;
  std::vector<std::size_t> starts{0};
  const std::vector<std::size_t>& edges = planner->edges_of(q);
  starts.insert(starts.end(), edges.begin(), edges.end());
  for (const std::size_t start : starts) {
    q.bytes = start;
    const Plan* plan = nullptr;
    const Status status = planner->plan(q, &plan);
    const std::string what = status.ok() ? plan->text : "nothing";
    if (what == before) continue;
    if (start > 0) text += " below " + size_text(start) + "; ";
    text += what;
    before = what;
  }
  return text + (text == before ? "" : " above");
}

topology::Link link_of(const Topology& topology) {
  topology::Link link;
  link.source = "no host tells of its devices' speed";
  if (const auto slowest = slowest_device(topology)) {
    link = {slowest->first * 1e9 / 8, 1, "the slowest host's fastest device"};
  }
  int cores = 0;
  for (const topology::Host& host : topology.hosts) {
    const auto known = static_cast<int>(topology.machines[static_cast<std::size_t>(host.machine)].machine.cores.size());
    const auto ranks = static_cast<int>(host.ranks.size());
    const int of_host = known == 0 ? ranks : std::min(known, ranks);
    cores = cores == 0 ? of_host : std::min(cores, of_host);
  }
  link.cores = std::max(cores, 1);
  return link;
}

std::string explain(const Planner& planner, const PlanQuery& q, const Topology& topology, Form form) {
  const std::vector<Row> rows = rows_of(planner, q);
  if (form == Form::kChoice) return choice_of(rows, q, topology).dump();
  return form == Form::kJson ? as_json(rows, q, topology, planner.assumptions(), planner.link())
                             : in_words(rows, q, planner.assumptions(), planner.link());
}

}  // namespace roda::engine

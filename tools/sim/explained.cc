#include "tools/sim/explained.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "algorithms/select/table.h"
#include "tools/common/names.h"
#include "tools/common/sizes.h"

namespace roda::simtool {
namespace {

using nlohmann::json;
using schedule::Collective;

// What a prediction may cost: about a second of one core.
constexpr double kMostSteps = 5e6;

// Of an ordinary machine: ranks of one host by what serves one host alone, and by what serves all; and the network of
// one host's interface, which is 10 Gbit/s Ethernet.
const sim::Level kMemory{topology::kHost, 1, 0.3, 0.2, 8};
const sim::Level kLoopback{topology::kHost, 1, 12, 6, 3};
const sim::Level kNetwork{"network", 0, 30, 8, 1.25};
constexpr double kInfiniBandLatency = 1.5, kInfiniBandOverhead = 0.3;
constexpr double kReduceGBps = 6, kCopyGBps = 10;  // of one rank

Collective collective_of(const json& name) { return static_cast<Collective>(tools::parse_collective(name).value()); }

std::vector<topology::Level> levels_of(const json& told) {
  std::vector<topology::Level> levels;
  for (const json& level : told.value("levels", json::array())) {
    auto& units = levels.emplace_back(topology::Level{level["name"], {}}).units;
    for (const json& run : level["units"]) units.insert(units.end(), run[1].get<std::size_t>(), run[0]);
  }
  if (levels.empty()) levels.push_back({topology::kHost, std::vector<std::int32_t>(told["ranks"].get<std::size_t>())});
  return levels;
}

std::vector<std::int32_t> host_of(const json& told) {
  std::vector<topology::Level> levels = levels_of(told);
  return std::move(levels[topology::host_level(levels)].units);
}

plan::Grid grid_of(const std::string& composition, const json& told) {
  if (composition != "torus" && composition != "between_hosts") return plan::nested_grid(levels_of(told));
  plan::Grid by_host = plan::nested_grid({{topology::kHost, host_of(told)}});
  return composition == "torus" ? plan::torus_of_hosts(by_host) : std::move(by_host);
}

// The ranks on their hosts, which the network joins where there are several.
Topology hosts_of(const json& told) {
  const std::vector<std::int32_t> units = host_of(told);
  Topology topology;
  for (std::size_t rank = 0; rank < units.size(); ++rank) {
    const auto host = static_cast<std::size_t>(units[rank]);
    if (host >= topology.hosts.size()) topology.hosts.resize(host + 1);
    topology.hosts[host].ranks.push_back(static_cast<int>(rank));
  }
  place_ranks(&topology);
  if (topology.hosts.size() == 1) topology.levels.clear();
  return topology;
}

// Whether messages travel inside hosts: both ends then copy every byte, and a rank that sends and receives at a time
// has one processor for both directions. What reads its peer's memory leaves the peer alone.
bool copies_inside(const sim::Scenario& scenario) {
  return std::ranges::any_of(scenario.plan.stages, [&](const plan::Stage& stage) {
    const bool leaves_host = scenario.plan.stages.size() > 1 && scenario.grid.hosts(stage.axis) > 1;
    const schedule::Algorithm* algorithm = schedule::find_algorithm(stage.collective, stage.algorithm);
    return !leaves_host && (algorithm->needs & schedule::kNeedsMessages) != 0;
  });
}

sim::Cluster cluster_of(const json& told, const json& stages, const sim::Scenario& scenario) {
  const bool is_near = stages.front()["serves_one_host"] || stages.back()["serves_one_host"];
  sim::Cluster cluster{"job", {is_near ? kMemory : kLoopback}, kReduceGBps, kCopyGBps, {}};
  cluster.levels.front().full_duplex = !copies_inside(scenario);
  if (scenario.topology.hosts.size() < 2) return cluster;
  sim::Level& network = cluster.levels.emplace_back(kNetwork);
  if (told["network"].is_null()) return cluster;
  network.GBps = told["network"]["Gbit_s"].get<double>() / 8;
  if (told["network"]["is_infiniband"]) {
    network.latency_us = kInfiniBandLatency;
    network.overhead_us = kInfiniBandOverhead;
  }
  return cluster;
}

json prediction_of(const json& told, const json& candidate) {
  std::optional<sim::Scenario> scenario = scenario_of(told, candidate, candidate["stages"]);
  if (!scenario) return nullptr;
  scenario->topology = hosts_of(told);
  scenario->cluster = cluster_of(told, candidate["stages"], *scenario);
  sim::Options options = sim::executed(*scenario);
  options.most_steps = kMostSteps;
  sim::Outcome outcome;
  if (sim::simulate(*scenario, options, &outcome)) return nullptr;
  double inside = 0, between = 0;
  for (const sim::LevelTraffic& traffic : outcome.levels) {
    (traffic.name == kNetwork.name ? between : inside) += traffic.bytes;
  }
  return {{"seconds", outcome.seconds}, {"bytes_inside_hosts", inside}, {"bytes_between_hosts", between}};
}

// "1.23"
std::string number(const char* format, double value) {
  char text[32];
  std::snprintf(text, sizeof text, format, value);
  return text;
}

std::string time_text(double seconds) {
  if (seconds < 1e-3) return number("%.3g us", seconds * 1e6);
  return seconds < 1 ? number("%.3g ms", seconds * 1e3) : number("%.3g s", seconds);
}

// In three digits: what is counted is rounded, what was asked for is not (format_size).
std::string volume_text(double bytes) {
  std::size_t unit = 0;
  const std::array units{" B", " KiB", " MiB", " GiB", " TiB"};
  for (; bytes >= 1000 && unit + 1 < units.size(); ++unit) bytes /= 1024;
  return number("%.3g", bytes) + units[unit];
}

std::string name_of(const json& candidate) {
  return candidate["transport"].get<std::string>() + "/" + candidate["algorithm"].get<std::string>();
}

double seconds_of(const json& candidate) {
  return candidate.contains("predicted") ? candidate["predicted"]["seconds"].get<double>() : HUGE_VAL;
}

std::string time_of(const json& candidate) {
  return candidate.contains("predicted") ? time_text(seconds_of(candidate)) : "";
}

// "+ 40 %": against what runs.
std::string difference_text(const json& candidate, const json& best) {
  if (candidate["chosen"] || !candidate.contains("predicted")) return "";
  const double ratio = seconds_of(candidate) / seconds_of(best) - 1;
  return (ratio < 0 ? "- " : "+ ") + number("%.0f %%", std::abs(ratio) * 100);
}

std::string fate(const json& candidate) {
  const char* begin = candidate["chosen"] ? "runs: " : candidate["usable"] ? "in reserve: " : "not usable: ";
  return begin + candidate["reason"].get<std::string>();
}

std::string right_aligned(const std::string& text, std::size_t width) {
  return std::string(width - std::min(width, text.size()), ' ') + text;
}

std::vector<const json*> in_order(const json& candidates) {
  std::vector<const json*> order;
  for (const json& candidate : candidates) order.push_back(&candidate);
  std::ranges::stable_sort(order, {}, [](const json* each) {
    return std::tuple(!(*each)["chosen"].get<bool>(), !(*each)["usable"].get<bool>(), seconds_of(*each));
  });
  return order;
}

std::string table_of(const json& told, const json* best) {
  constexpr std::size_t kTimeWidth = 8;
  std::string text;
  std::size_t width = 0;
  for (const json& candidate : told["candidates"]) width = std::max(width, name_of(candidate).size());
  const bool is_predicted = best != nullptr && best->contains("predicted");
  for (const json* candidate : in_order(told["candidates"])) {
    const std::string name = name_of(*candidate);
    text += ((*candidate)["chosen"] ? "  > " : "    ") + name + std::string(width - name.size() + 2, ' ');
    if (is_predicted) {
      text += right_aligned(time_of(*candidate), kTimeWidth) + "  " +
              right_aligned(difference_text(*candidate, *best), kTimeWidth) + "  ";
    }
    text += fate(*candidate) + "\n";
    if (candidate->contains("plan")) text += "      " + (*candidate)["plan"].get<std::string>() + "\n";
    if (!(*candidate)["chosen"] || !told.contains("schedule")) continue;
    for (const json& line : told["schedule"]) text += "      " + line.get<std::string>() + "\n";
  }
  return text;
}

// "ALLREDUCE of 64 MiB of float32 over 4 ranks of one host: shm/direct runs, 9.5 ms predicted"
std::string verdict_of(const json& told, const json* best) {
  std::string verdict = best == nullptr ? "nothing can run this" : name_of(*best) + " runs";
  if (best != nullptr && best->contains("predicted")) verdict += ", " + time_of(*best) + " predicted";
  const int ranks = told["ranks"], hosts = told["hosts"];
  if (ranks == 1) verdict = "nothing travels, the input is copied to the output";
  return told["collective"].get<std::string>() + " of " + tools::format_size(told["bytes"]) + " of " +
         told["dtype"].get<std::string>() + (told["memory"] == "host" ? "" : " on GPUs") + " over " +
         std::to_string(ranks) + (ranks == 1 ? " rank" : " ranks") +
         (hosts <= 1 ? " of one host: " : " on " + std::to_string(hosts) + " hosts: ") + verdict + "\n";
}

}  // namespace

std::optional<sim::Scenario> scenario_of(const json& told, const json& option, const json& stages) {
  sim::Scenario scenario;
  const std::string name = option["algorithm"];
  scenario.bytes = told["bytes"];
  scenario.plan = {name, collective_of(told["collective"]), {}};
  for (const json& stage : stages) {
    const Collective collective = collective_of(stage["collective"]);
    const std::string algorithm = stage["algorithm"];
    if (schedule::find_algorithm(collective, algorithm) == nullptr) return std::nullopt;
    scenario.plan.stages.push_back({collective, algorithm, stage.value("axis", 0)});
  }
  const bool is_composed = option["transport"] == select::kLevels;
  scenario.grid = is_composed ? grid_of(name, told) : plan::flat_grid(told["ranks"]);
  return scenario;
}

void predict(json* told) {
  if ((*told)["memory"] != "host" || (*told)["ranks"] < 2) return;
  for (json& candidate : (*told)["candidates"]) {
    json predicted = candidate["usable"] ? prediction_of(*told, candidate) : json();
    if (predicted.is_null()) continue;
    candidate["predicted"] = std::move(predicted);
    if (!candidate["chosen"]) continue;
    const bool is_known = !(*told)["network"].is_null();
    (*told)["links"] = is_known ? "assumed; the network's bandwidth as its interfaces tell it" : "assumed";
  }
}

std::string in_words(const json& told) {
  const json& candidates = told["candidates"];
  const auto found = std::ranges::find_if(candidates, [](const json& each) { return each["chosen"].get<bool>(); });
  const json* best = found == candidates.end() ? nullptr : &*found;
  std::string text = verdict_of(told, best) + table_of(told, best);
  if (best != nullptr && best->contains("predicted")) {
    const json& moved = (*best)["predicted"];
    text += "  times are predicted by the model of roda-sim over links that are " + told["links"].get<std::string>() +
            "; what runs moves " + volume_text(moved["bytes_inside_hosts"]) + " inside hosts and " +
            volume_text(moved["bytes_between_hosts"]) + " between them.\n";
  }
  for (const json& reason : told.value("assumed_usable", json::array())) {
    text += "  taken to be usable there, though not on this machine: " + reason.get<std::string>() + "\n";
  }
  for (const json& own : told.value("own", json::array())) {
    const std::string wrong = own["reason"];
    text += "  of your own: " + own["algorithm"].get<std::string>() + " (" + own["source"].get<std::string>() +
            "): " + (wrong.empty() ? "proved for " + std::to_string(told["ranks"].get<int>()) + " ranks" : wrong) +
            "\n";
  }
  text.pop_back();
  return text;
}

}  // namespace roda::simtool

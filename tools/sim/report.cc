#include "tools/sim/report.h"

#include <cstdio>
#include <iterator>
#include <nlohmann/json.hpp>

#include "tools/common/sizes.h"
#include "tools/sim/model/trace.h"

namespace roda::simtool {

using nlohmann::json;

namespace {

constexpr std::size_t kPathLines = 40;

std::string size_text(double bytes) { return tools::format_size(static_cast<std::size_t>(bytes)); }
// Of what need not be exact: "896 MiB", "1.5 GiB".
std::string traffic_text(double bytes) {
  constexpr const char* kUnits[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB"};
  std::size_t unit = 0;
  for (; bytes >= 1000 && unit + 1 < std::size(kUnits); ++unit) bytes /= 1024;
  char text[32];
  std::snprintf(text, sizeof text, "%.3g %s", bytes, kUnits[unit]);
  return text;
}
std::string slice_text(const Row& row) { return row.slice_bytes > 0 ? size_text(row.slice_bytes) : "whole"; }

void print_path(const sim::Outcome& outcome) {
  std::printf("  critical path of the run that was simulated, %zu steps:", outcome.path.size());
  for (const sim::PathShare& share : sim::path_shares(outcome.path)) {
    std::printf(" %s %.2f us;", share.what.c_str(), share.us);
  }
  std::printf("\n");
  for (std::size_t i = 0; i < outcome.path.size(); ++i) {
    if (i == kPathLines / 2 && outcome.path.size() > kPathLines) {
      std::printf("    ... %zu more ...\n", outcome.path.size() - kPathLines);
      i = outcome.path.size() - kPathLines / 2;
    }
    const sim::PathStep& step = outcome.path[i];
    const std::string peer = step.peer < 0 ? "" : " with " + std::to_string(step.peer);
    std::printf("    %12.2f .. %12.2f us  rank %d %s%s%s%s, stage %d, piece %d\n", step.begin_us, step.end_us,
                step.rank, step.what.c_str(), step.level.empty() ? "" : " ", step.level.c_str(), peer.c_str(),
                step.stage, step.piece);
  }
}

json path_json(const sim::Outcome& outcome) {
  json steps = json::array();
  for (const sim::PathStep& step : outcome.path) {
    json entry = {{"what", step.what},   {"rank", step.rank},         {"stage", step.stage},
                  {"piece", step.piece}, {"begin_us", step.begin_us}, {"end_us", step.end_us}};
    if (step.peer >= 0) entry["peer"] = step.peer;
    if (!step.level.empty()) entry["level"] = step.level;
    steps.push_back(std::move(entry));
  }
  return steps;
}

}  // namespace

void Report::print_line(const Row& row) {
  if (!header_printed_) {
    std::printf("# simulated  %-30s %8s %10s %9s %14s %9s %9s %9s %8s  %s\n", "plan", "ranks", "size", "slice",
                "time us", "algbw", "busbw", "classes", "pieces", "bytes by level");
    header_printed_ = true;
  }
  if (!row.refused.empty()) {
    std::printf("             %-30s %8d %10s  refused: %s\n", row.name.c_str(), row.ranks, size_text(row.bytes).c_str(),
                row.refused.c_str());
    return;
  }
  const sim::Outcome& outcome = row.outcome;
  std::printf("             %-30s %8d %10s %9s %14.2f %9.3f %9.3f %9d %8lld ", row.name.c_str(), row.ranks,
              size_text(row.bytes).c_str(), slice_text(row).c_str(), outcome.seconds * 1e6, outcome.algbw_GBps,
              outcome.busbw_GBps, outcome.classes, static_cast<long long>(outcome.pieces));
  for (const sim::LevelTraffic& level : outcome.levels) {
    std::printf(" %s %s", level.name.c_str(), traffic_text(level.bytes).c_str());
  }
  std::printf("%s\n", outcome.extrapolated ? "  (continued)" : "");
  if (with_path_) print_path(outcome);
}

void Report::print_json(const Row& row, const sim::Cluster& cluster) const {
  const sim::Outcome& outcome = row.outcome;
  json out = {
      {"simulated", true}, {"cluster", cluster.name}, {"plan", row.name}, {"ranks", row.ranks}, {"bytes", row.bytes}};
  if (!row.refused.empty()) {
    out["refused"] = row.refused;
  } else {
    out["time_us"] = outcome.seconds * 1e6;
    out["algbw_GBps"] = outcome.algbw_GBps;
    out["busbw_GBps"] = outcome.busbw_GBps;
    out["slice_bytes"] = row.slice_bytes;
    out["pieces"] = outcome.pieces;
    out["classes"] = outcome.classes;
    out["continued"] = outcome.extrapolated;
    for (const sim::LevelTraffic& level : outcome.levels) {
      out["levels"][level.name] = {{"bytes", level.bytes}, {"messages", level.messages}};
    }
    if (with_path_) out["critical_path"] = path_json(outcome);
  }
  std::printf("%s\n", out.dump().c_str());
}

void Report::add(const Row& row, const sim::Cluster& cluster) {
  as_json_ ? print_json(row, cluster) : print_line(row);
  std::fflush(stdout);
}

void Report::add(const sim::ControlOptions& options, const std::vector<sim::ControlCost>& costs) {
  if (!as_json_ && !header_printed_) {
    std::printf("# counted    %-12s %8s %16s %16s %6s %14s %14s  %s\n", "control", "ranks", "messages/rank",
                "at the busiest", "hops", "model us", "busiest cpu us", "what it is");
    header_printed_ = true;
  }
  for (const sim::ControlCost& cost : costs) {
    if (as_json_) {
      const json out = {{"control", cost.scheme},  {"ranks", options.ranks}, {"messages_per_rank", cost.mean},
                        {"busiest", cost.busiest}, {"hops", cost.hops},      {"model_us", cost.us},
                        {"cpu_us", cost.cpu_us},   {"records", cost.records}};
      std::printf("%s\n", out.dump().c_str());
    } else {
      std::printf("             %-12s %8d %16.1f %16.0f %6d %14.1f %14.1f  %s\n", cost.scheme.c_str(), options.ranks,
                  cost.mean, cost.busiest, cost.hops, cost.us, cost.cpu_us, cost.about.c_str());
    }
  }
}

void Report::add(const sim::ControlOptions& options, const sim::FormationCost& cost) {
  if (as_json_) {
    const json out = {{"forming", options.ranks}, {"values", cost.values}, {"requests", cost.requests},
                      {"bytes", cost.bytes},      {"us", cost.us},         {"clients", cost.clients},
                      {"links", cost.links},      {"mails", cost.mails},   {"rounds", cost.rounds},
                      {"depth", cost.depth}};
    std::printf("%s\n", out.dump().c_str());
    return;
  }
  std::printf(
      "             forming      %8d ranks: %.0f values, %.0f requests and %s through the store, which works %.2f s, "
      "%.0f "
      "connections to it, %.0f between hosts, %.0f mails in hosts, %d rounds, %d hosts deep\n",
      options.ranks, cost.values, cost.requests, size_text(cost.bytes).c_str(), cost.us / 1e6, cost.clients, cost.links,
      cost.mails, cost.rounds, cost.depth);
}

}  // namespace roda::simtool

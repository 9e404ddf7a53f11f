// roda-sim: how long collectives would take on a cluster that nobody needs to own.
#include <cstdio>
#include <fstream>

#include "algorithms/text/schedule_file.h"
#include "tools/sim/candidates.h"
#include "tools/sim/choice.h"
#include "tools/sim/options.h"
#include "tools/sim/plot.h"
#include "tools/sim/report.h"
#include "tools/sim/train.h"

namespace roda::simtool {
namespace {

sim::SimulationOptions sim_options(const CommandLine& options) {
  sim::SimulationOptions out;
  out.trace = options.path;
  out.most_steps = options.most_steps;
  return out;
}

int simulate_schedule(const CommandLine& options) {
  sim::Scenario scenario;
  scenario.cluster = load_cluster(options.cluster);
  if (auto wrong = text::read_schedules(read_file(options.schedule), &scenario.schedules)) {
    throw Failure(options.schedule + ": " + *wrong);
  }
  Report report(options.json, options.path);
  for (const double bytes : options.sizes) {
    scenario.bytes = bytes;
    const Row row = simulate(scenario, scenario.schedules.front().algorithm, sim_options(options), options.slices,
                             options.in_flight);
    report.add(row, scenario.cluster);
    if (!row.refused.empty()) return 1;
  }
  return 0;
}

int write_schedule(const CommandLine& options) {
  const schedule::Algorithm* algorithm = schedule::find_algorithm(options.collective, options.write);
  if (algorithm == nullptr) throw Failure("there is no algorithm " + options.write);
  const std::int32_t size = options.ranks.front();
  if (size > text::kMostRanks)
    throw Failure("a schedule file has at most " + std::to_string(text::kMostRanks) + " ranks");
  std::vector<schedule::Schedule> ranks;
  for (std::int32_t rank = 0; rank < size; ++rank) ranks.push_back(algorithm->make(rank, size, 0));
  std::fputs(text::write_schedules(ranks).c_str(), stdout);
  return 0;
}

int count_control(const CommandLine& options) {
  const sim::Cluster cluster = load_cluster(options.cluster);
  Report report(options.json, false);
  for (const std::int32_t ranks : options.ranks) {
    const sim::ControlOptions control = control_options(cluster, ranks);
    report.add(control, sim::control_costs(control));
    report.add(control, sim::formation_cost(control));
  }
  return 0;
}

// Times over ranks where there are several numbers of them, else over sizes.
void draw(const CommandLine& options, const std::vector<Row>& rows) {
  Plot plot;
  const bool over_ranks = options.ranks.size() > 1;
  plot.title = std::string(schedule::collective_name(options.collective)) + ", simulated";
  plot.x_title = over_ranks ? "ranks" : "bytes";
  plot.y_title = "time, us";
  for (const Row& row : rows) {
    if (!row.refused.empty()) continue;
    const std::string name =
        over_ranks && options.sizes.size() > 1 ? row.name + ", " + bytes_text(row.bytes) : row.name;
    plot.add(name, over_ranks ? row.ranks : row.bytes, row.outcome.seconds * 1e6);
  }
  write_plot(plot, options.plot);
}

int compare(const CommandLine& options) {
  const sim::Cluster cluster = load_cluster(options.cluster);
  const auto names = options.candidates.empty() ? default_candidates(options.collective) : options.candidates;
  Report report(options.json, options.path);
  std::vector<Row> rows;
  for (const std::int32_t ranks : options.ranks) {
    for (const double bytes : options.sizes) {
      for (const std::string& name : names) {
        rows.push_back(name == kEngine
                           ? simulate_choice(cluster, options.collective, ranks, bytes, sim_options(options))
                           : simulate(scenario_of(cluster, options.collective, name, ranks, bytes), name,
                                      sim_options(options), options.slices, options.in_flight));
        report.add(rows.back(), cluster);
      }
    }
  }
  if (!options.plot.empty()) draw(options, rows);
  return 0;
}

int run(int argc, char** argv) {
  int exit_code = 0;
  const auto options = parse_options(argc, argv, &exit_code);
  if (!options) return exit_code;
  try {
    if (!options->write.empty()) return write_schedule(*options);
    if (!options->train.empty()) return train(*options);
    if (options->control) return count_control(*options);
    return options->schedule.empty() ? compare(*options) : simulate_schedule(*options);
  } catch (const Failure& failure) {
    std::fprintf(stderr, "roda-sim: %s\n", failure.what());
    return 1;
  }
}

}  // namespace
}  // namespace roda::simtool

int main(int argc, char** argv) { return roda::simtool::run(argc, argv); }

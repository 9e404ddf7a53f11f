#include "tools/sim/curves.h"

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <span>
#include <string_view>
#include <tuple>

#include "tools/sim/choice.h"
#include "tools/sim/plot.h"
#include "tools/sim/train.h"

namespace roda::simtool {
namespace {

using nlohmann::json;

constexpr std::int32_t kRanks[] = {10, 40, 100, 400, 1000, 4000, 10000, 40000, 100000};
constexpr double kLarge = 256e6;
constexpr double kSmall = 4096;
constexpr double kMostSteps = 8e6;  // of a point; what needs more is told and left out

struct Candidate {
  const char* curve;
  const char* large;  // what runs it at 256 MB
  const char* small;  // and at 4 KB
};

constexpr Candidate kCandidates[] = {
    {"what the engine runs", kEngine, kEngine},
    {"flat ring", "ring", "ring"},
    {"tree", "double_binary_tree", "binomial"},
    {"hierarchical", "hierarchical:ring/double_binary_tree/ring", "hierarchical:recursive_halving/binomial/bruck"},
    {"torus", "torus:ring/ring/ring", "torus:ring/ring/ring"},
};

// One figure: a plot, and its points as JSON lines.
class Figure {
 public:
  Figure(const std::filesystem::path& folder, const std::string& name, const std::string& title)
      : path_(folder / name), points_(path_.string() + ".jsonl") {
    plot_.title = title;
    plot_.x_title = "ranks";
    plot_.y_title = "time, us (simulated)";
  }

  void y_title(const std::string& title) { plot_.y_title = title; }
  void percent(const std::string& title) {
    plot_.x_title = "GPUs";
    plot_.y_title = title;
    plot_.is_percent = true;
  }

  void add(const std::string& curve, double x, double y, json point) {
    plot_.add(curve, x, y, !point.value("simulated", true));
    point["curve"] = curve;
    points_ << point.dump() << "\n";
  }

  void end() {
    write_plot(plot_, path_.string() + ".svg");
    if (!points_.flush()) throw Failure(path_.string() + ".jsonl: can't be written");
    std::printf("%s.svg\n", path_.string().c_str());
  }

 private:
  std::filesystem::path path_;
  std::ofstream points_;
  Plot plot_;
};

json point_of(const Row& row) {
  return {{"simulated", true},
          {"ranks", row.ranks},
          {"bytes", row.bytes},
          {"time_us", row.outcome.seconds * 1e6},
          {"plan", row.name},
          {"slice_bytes", row.slice_bytes},
          {"classes", row.outcome.classes},
          {"busbw_GBps", row.outcome.busbw_GBps}};
}

void add_point(const sim::Cluster& cluster, const CommandLine& options, const char* curve, const char* name,
               std::int32_t ranks, double bytes, Figure* figure) {
  sim::SimulationOptions how;
  how.most_steps = std::min(options.most_steps, kMostSteps);
  constexpr auto kAllreduce = schedule::Collective::kAllreduce;
  const Row row = std::string_view(name) == kEngine
                      ? simulate_choice(cluster, kAllreduce, ranks, bytes, how)
                      : simulate(scenario_of(cluster, kAllreduce, name, ranks, bytes), name, how);
  if (!row.refused.empty()) {
    std::printf("%s of %d ranks: %s\n", name, ranks, row.refused.c_str());
    return;
  }
  std::printf("%-14s %7d ranks %12.1f us  %d classes\n", curve, ranks, row.outcome.seconds * 1e6, row.outcome.classes);
  std::fflush(stdout);
  figure->add(curve, ranks, row.outcome.seconds * 1e6, point_of(row));
}

void allreduce_figure(const std::filesystem::path& folder, const sim::Cluster& cluster, const CommandLine& options,
                      bool large) {
  const double bytes = large ? kLarge : kSmall;
  Figure figure(folder, large ? "allreduce-256MB" : "allreduce-4KB",
                std::string("allreduce of ") + (large ? "256 MB" : "4 KB") + " on " + cluster.name + ", simulated");
  for (const Candidate& candidate : kCandidates) {
    for (const std::int32_t ranks : kRanks) {
      add_point(cluster, options, candidate.curve, large ? candidate.large : candidate.small, ranks, bytes, &figure);
    }
  }
  figure.end();
}

// The setting of the NCCL 2.4 post: rings against double binary trees between hosts, one rank (card) each.
void trees_figure(const std::filesystem::path& folder, const CommandLine& options) {
  const sim::Cluster cluster = load_cluster("");
  Figure figure(folder, "trees-and-rings", "allreduce of 64 KiB, one rank per host on one switch, simulated");
  for (std::int32_t ranks = 4; ranks <= 16384; ranks *= 2) {
    add_point(cluster, options, "ring", "ring", ranks, 64 << 10, &figure);
    add_point(cluster, options, "double binary tree", "double_binary_tree", ranks, 64 << 10, &figure);
  }
  figure.end();
}

constexpr std::int32_t kGpus[] = {8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096};
constexpr std::int32_t kGpusOfSixes[] = {6, 24, 96, 384, 1536, 6144, 27360};

struct Training {
  const char* curve;
  const char* model;
  double rate, batch;  // 0: as published
  const char* hosts;   // the file beside the cluster's; null: hosts of 8 GPUs
  std::span<const std::int32_t> gpus = kGpus;
};
constexpr Training kTrainings[] = {
    {"llama-7b, A100", "llama-7b", 0, 0, nullptr},
    {"resnet50, A100", "resnet50", 0, 0, nullptr},
    {"gpt2, A100", "gpt2", 0, 0, nullptr},
    {"resnet50, P100", "resnet50", 219, 64, "pascal_hosts.json", std::span(kGpus).first<7>()},
    {"vgg16, P100", "vgg16", 0, 0, "pascal_hosts.json", std::span(kGpus).first<7>()},
    {"resnet50, V100", "resnet50", 367, 64, "summit_hosts.json", kGpusOfSixes},
};
// Horovod's benchmarks of 128 and 512 P100, in hosts of 4 with a card of 25 Gbit/s; Kurth et al. on Piz Daint's P100
// and Summit's V100; Romero et al. on Summit.
constexpr std::tuple<const char*, double, double> kMeasured[] = {
    {"ResNet-101, measured", 128, 90}, {"ResNet-101, measured", 512, 90}, {"VGG-16, measured", 128, 79},
    {"VGG-16, measured", 512, 68},     {"Tiramisu, measured", 5300, 79},  {"DeepLabv3+, measured", 27360, 90.7},
    {"STEMDL, measured", 27600, 93}};

void training_figure(const std::filesystem::path& folder, CommandLine options) {
  const std::filesystem::path clusters = std::filesystem::path(options.cluster).parent_path();
  Figure figure(folder, "training", "data-parallel training, simulated, and what was published of Horovod");
  figure.percent("efficiency, % of as many single GPUs");
  for (const Training& training : kTrainings) {
    options.train = training.model;
    options.rate = training.rate;
    options.batch = training.batch;
    options.ranks.assign(training.gpus.begin(), training.gpus.end());
    const auto cluster = training_cluster(training.hosts == nullptr ? "" : (clusters / training.hosts).string());
    std::vector<std::string> assumptions;
    for (const TrainingPoint& point : training_points(options, cluster, &assumptions)) {
      figure.add(training.curve, point.gpus, point.efficiency() * 100, json_of(point));
    }
  }
  for (const auto& [curve, gpus, percent] : kMeasured) {
    figure.add(curve, gpus, percent, {{"simulated", false}, {"gpus", gpus}, {"efficiency", percent / 100}});
  }
  figure.end();
}

void control_figure(const std::filesystem::path& folder, const sim::Cluster& cluster) {
  Figure figure(folder, "control-plane", "messages at the busiest rank to agree on one tensor, counted");
  figure.y_title("messages sent and received");
  for (std::int32_t ranks = 64; ranks <= 32768; ranks *= 2) {
    for (const sim::ControlCost& cost : sim::control_costs(control_options(cluster, ranks))) {
      figure.add(cost.scheme, ranks, cost.busiest,
                 {{"ranks", ranks}, {"busiest", cost.busiest}, {"hops", cost.hops}, {"model_us", cost.us}});
    }
  }
  figure.end();
}

}  // namespace

sim::ControlOptions control_options(const sim::Cluster& cluster, std::int32_t ranks) {
  sim::ControlOptions options;
  options.ranks = ranks;
  const std::int32_t members = cluster.levels.front().members;
  options.ranks_per_host = cluster.levels.size() > 1 && members > 0 ? members : 1;
  options.overhead_us = cluster.levels.back().overhead_us;
  options.latency_us = cluster.levels.back().latency_us;
  return options;
}

int write_curves(const CommandLine& options) {
  const std::filesystem::path folder = options.curves;
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) throw Failure(folder.string() + ": " + error.message());
  const sim::Cluster cluster = load_cluster(options.cluster);
  control_figure(folder, cluster);
  training_figure(folder, options);
  allreduce_figure(folder, cluster, options, false);
  allreduce_figure(folder, cluster, options, true);
  trees_figure(folder, options);
  return 0;
}

}  // namespace roda::simtool

#include "tools/sim/train.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <map>
#include <nlohmann/json.hpp>
#include <numeric>

#include "tools/common/models.h"
#include "tools/sim/candidates.h"
#include "tools/sim/choice.h"
#include "tools/sim/plot.h"
#include "tools/sim/step.h"

namespace roda::simtool {
namespace {

constexpr double kMostBucket = 128 << 20;  // HOROVOD_FUSION_THRESHOLD's default

// What was published of one GPU that trains the model.
struct Published {
  const char* model;
  const char* unit;
  double rate;   // units a second
  double batch;  // units in a step
  int element_bytes;
  const char* source;
};
constexpr Published kPublished[] = {
    {"resnet50", "images", 2470, 256, 4, "A100, mixed precision, NVIDIA DeepLearningExamples, PyTorch 21.03"},
    {"vgg16", "images", 154, 64, 4, "P100, float32, TensorFlow's benchmarks of 2017"},
    {"gpt2", "tokens", 12 * 1024 / 0.135, 12 * 1024, 4, "A100, nanoGPT's README: 135 ms for 12 x 1024 tokens"},
    {"llama-7b", "tokens", 4641, 12 * 2048, 2,
     "A100, of the 8 in one host that train MPT-7B, llm-foundry's benchmarks; gradients in bfloat16"},
};

const Published& published(const std::string& model) {
  return *std::find_if(std::begin(kPublished), std::end(kPublished), [&](const auto& p) { return model == p.model; });
}

// Seconds of an allreduce as the engine would run it. Simulated at powers of four, between which it grows evenly.
class Travel {
 public:
  Travel(const sim::Cluster& cluster, std::int32_t ranks, const sim::SimulationOptions& how)
      : cluster_(cluster), ranks_(ranks), how_(how) {}

  double operator()(double bytes) {
    double low = 1 << 12;
    while (low < kMostBucket / 4 && low * 4 <= bytes) low *= 4;
    const double at_low = at(low), at_high = at(low * 4);
    if (bytes <= low) return at_low;
    return at_low + (at_high - at_low) * (bytes - low) / (3 * low);
  }
  const std::string& runs() const { return runs_; }

 private:
  double at(double bytes) {
    const auto known = known_.find(bytes);
    if (known != known_.end()) return known->second;
    const Row row = simulate_choice(cluster_, schedule::Collective::kAllreduce, ranks_, bytes, how_);
    if (!row.refused.empty()) throw Failure(row.name + " on " + std::to_string(ranks_) + " GPUs: " + row.refused);
    if (known_.empty() || bytes > known_.rbegin()->first)
      runs_ = row.name + ", slices of " + bytes_text(row.slice_bytes);
    return known_[bytes] = row.outcome.seconds;
  }

  const sim::Cluster& cluster_;
  std::int32_t ranks_;
  sim::SimulationOptions how_;
  std::map<double, double> known_;
  std::string runs_;
};

std::string number(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.4g", value);
  return text;
}

// One number of GPUs.
struct TrainingPoint {
  std::int32_t gpus = 0;
  double compute_s = 0;  // of one GPU by itself
  double step_s = 0;
  int buckets = 0;
  std::string runs;  // a large bucket

  double efficiency() const { return compute_s / step_s; }
};

sim::Cluster training_cluster(const std::string& path) {
  if (!path.empty()) return load_cluster(path);
  sim::Cluster cluster;
  cluster.name = "hosts of 8 GPUs, 150 GB/s between them, a card of 25 GB/s each";
  cluster.levels = {{topology::kHost, 8, 1.5, 0.5, 150}, {"network", 0, 3, 1, 25, 8}};
  cluster.reduce_GBps = 400;
  cluster.copy_GBps = 800;
  return cluster;
}

// Assumptions that belong to the model are added to *assumptions.
std::vector<TrainingPoint> training_points(const CommandLine& options, const sim::Cluster& cluster,
                                           std::vector<std::string>* assumptions) {
  const Published& about = published(options.train);
  const double rate = options.rate > 0 ? options.rate : about.rate;
  const double batch = options.batch > 0 ? options.batch : about.batch;
  std::vector<double> bytes;
  for (const std::size_t elements : tools::gradient_sizes(options.train)) {
    bytes.push_back(static_cast<double>(elements) * about.element_bytes);
  }
  const double all = std::accumulate(bytes.begin(), bytes.end(), 0.0);
  assumptions->push_back(options.train + ": " + std::to_string(bytes.size()) + " gradients, " + number(all / 1e6) +
                         " MB; a GPU does " + number(batch) + " " + about.unit + " a step at " + number(rate) +
                         " a second (" + (options.rate > 0 ? "given" : about.source) + ")");
  sim::SimulationOptions how;
  how.most_steps = options.most_steps;
  std::vector<TrainingPoint> points;
  for (const std::int32_t gpus : options.ranks) {
    sim::ControlOptions control = control_options(cluster, gpus);
    control.tensors = static_cast<std::int32_t>(bytes.size());
    Travel travel(cluster, gpus, how);
    const auto seconds = [&](double size) { return gpus > 1 ? travel(size) : 0; };
    const double agreement = gpus > 1 ? sim::control_costs(control).back().us * 1e-6 : 0;
    const Step step = step_of(bytes, batch / rate, agreement, kMostBucket, seconds);
    points.push_back({gpus, batch / rate, step.seconds, step.buckets, travel.runs()});
  }
  return points;
}

}  // namespace

int train(const CommandLine& options) {
  const sim::Cluster cluster = training_cluster(options.cluster);
  std::vector<std::string> assumptions = {
      "simulated, not measured; cluster: " + cluster.name,
      "a GPU is a rank, whose memory the transports reach; plans and slices are the engine's for tensors in host "
      "memory, with the transports that are usable on this machine",
      "forward takes a third of a step, backward two thirds; every gradient takes equally long",
      "buckets of up to 128 MiB, one after the other; what becomes ready meanwhile is the next; ranks agree on each "
      "gradient before, along the tree of hosts",
      "left out: loading of data, late ranks, loss, the memory that a model needs"};
  const std::vector<TrainingPoint> points = training_points(options, cluster, &assumptions);
  for (const std::string& line : assumptions) {
    if (!options.json) std::printf("# %s\n", line.c_str());
  }
  const double one = points.front().compute_s * 1e3;
  if (!options.json) {
    std::printf("%8s %12s %12s %12s %12s %8s  %s\n", "GPUs", "step ms", "of one ms", "waits ms", "efficiency",
                "buckets", "large buckets");
  }
  for (const TrainingPoint& point : points) {
    if (options.json) {
      const nlohmann::json out = {{"simulated", true},
                                  {"gpus", point.gpus},
                                  {"step_ms", point.step_s * 1e3},
                                  {"compute_ms", point.compute_s * 1e3},
                                  {"efficiency", point.efficiency()},
                                  {"buckets", point.buckets},
                                  {"runs", point.runs},
                                  {"model", options.train},
                                  {"assumptions", assumptions}};
      std::printf("%s\n", out.dump().c_str());
    } else {
      std::printf("%8d %12.1f %12.1f %12.1f %10.1f %% %8d  %s\n", point.gpus, point.step_s * 1e3, one,
                  point.step_s * 1e3 - one, point.efficiency() * 100, point.buckets, point.runs.c_str());
    }
  }
  return 0;
}

}  // namespace roda::simtool

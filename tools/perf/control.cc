#include <sys/socket.h>

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "tools/perf/measure.h"
#include "tools/perf/statistics.h"
#include "tools/sim/model/formation.h"

namespace roda::perf {

namespace {

constexpr int kTensors = 161;  // of a ResNet-50
constexpr int kStepsBefore = 20;
constexpr std::size_t kStepsCounted = 100;

sim::ControlOptions job_of(int ranks, int hosts) {
  sim::ControlOptions options;
  options.ranks = ranks;
  options.ranks_per_host = ranks / hosts;
  options.tensors = kTensors;
  return options;
}

// Connections of this process to others over a network.
int connections() {
  int count = 0;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    sockaddr_storage peer{};
    socklen_t length = sizeof peer;
    const int fd = std::stoi(entry.path().filename());
    const bool is_connected = getpeername(fd, reinterpret_cast<sockaddr*>(&peer), &length) == 0;
    count += is_connected && peer.ss_family != AF_UNIX ? 1 : 0;
  }
  return count;
}

double messages() {
  roda_traffic traffic{};
  traffic.struct_size = sizeof traffic;
  roda_control_traffic(&traffic);
  return static_cast<double>(traffic.sent + traffic.received);
}

// Tensors with nothing in them: a step is agreement alone.
class Empty {
 public:
  explicit Empty(int count) {
    for (int i = 0; i < count; ++i) names_.push_back("perf.empty." + std::to_string(count) + "." + std::to_string(i));
    for (const std::string& name : names_) {
      roda_op op = Session::make_op(RODA_ALLREDUCE, name.c_str());
      op.dtype = RODA_FLOAT32;
      op.ndim = 1;
      op.shape = &kShape;
      op.input = op.output = &place_;
      ops_.push_back(op);
    }
  }
  Empty(const Empty&) = delete;
  Empty& operator=(const Empty&) = delete;

  void step() const { Session::submit(ops_.data(), static_cast<std::int32_t>(ops_.size())).wait(); }

 private:
  static constexpr std::int64_t kShape = 0;
  float place_ = 0;
  std::vector<std::string> names_;
  std::vector<roda_op> ops_;
};

// Figures of agreeing on one step.
struct Agreed {
  double messages = 0, busiest = 0;  // of all ranks, and of the one that has most; the median over the steps
  double cpu_us = 0;                 // of all ranks
  double us = 0;
};

double median(std::vector<double> values) { return summarise(std::move(values)).median; }

Agreed agree_on(const Empty& tensors) {
  for (int i = 0; i < kStepsBefore; ++i) tensors.step();
  std::vector<double> counts;
  const double cpu = processor_us(), begin = now_us();
  for (double before = messages(), after = 0; counts.size() < kStepsCounted; before = after) {
    tensors.step();
    after = messages();
    counts.push_back(after - before);
  }
  const double spent = processor_us() - cpu, took = now_us() - begin;
  return {median(over_ranks(counts, RODA_SUM)), median(over_ranks(counts, RODA_MAX)),
          over_ranks({spent / kStepsCounted}, RODA_SUM).front(), took / kStepsCounted};
}

void compare(Report* report, const std::string& name, double counted, double predicted) {
  report->note(name, counted, "counted");
  report->note(name + ", by roda-sim", predicted, "predicted");
}

}  // namespace

bool measure_control(const Session& session, const CommandLine&, Report* report) {
  const sim::ControlOptions job = job_of(session.size(), roda_cross_size());
  const double connected = connections();
  const Agreed all = agree_on(Empty(kTensors)), one = agree_on(Empty(1));
  const sim::ControlCost predicted = sim::control_costs(job).back();
  const sim::FormationCost forming = sim::formation_cost(job);
  compare(report, "connections that all ranks have at first", over_ranks({connected}, RODA_SUM).front(),
          forming.clients + 2 * forming.links);
  compare(report, "messages of a step", all.messages, predicted.mean * session.size());
  compare(report, "messages of a step at the busiest rank", all.busiest, predicted.busiest);
  report->note("processor time of a step of all ranks", all.cpu_us, "us");
  report->note("processor time of a step of one tensor", one.cpu_us, "us");
  report->note("a step", all.us, "us");
  return true;
}

void report_forming(const CommandLine& options, const roda_traffic& store, Report* report) {
  const sim::FormationCost predicted = sim::formation_cost(job_of(options.ranks, options.hosts));
  compare(report, "connections to the store", store.connections, predicted.clients);
  compare(report, "values in the store", static_cast<double>(store.values), predicted.values);
  compare(report, "requests to the store", static_cast<double>(store.received), predicted.requests);
  compare(report, "bytes through the store", static_cast<double>(store.bytes), predicted.bytes);
}

}  // namespace roda::perf

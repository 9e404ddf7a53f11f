#include "algorithms/schedule/sim/gpus.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

namespace roda::sim {

using schedule::Collective;

namespace {

constexpr double kBytesPerMicrosecond = 1e3;  // of 1 GB/s

// What NCCL takes for one of its protocols: us to begin, us of a hop by NVLink and by network, the share of the links'
// bandwidth that is data.
struct Protocol {
  double begin, inside, between, share;
};
// LL, LL128, Simple. A hop of a ring costs the processor that posts it at least 1 us between hosts, 3 of Simple.
constexpr Protocol kRing[] = {{6.6, 0.6, 2.7, 0.25}, {14, 1.9, 4, 0.92}, {8.4, 3.4, 14, 1}};
constexpr double kRingPosts[] = {1, 1, 3};
constexpr Protocol kTree[] = {{6.8, 0.6, 5, 0.92 / 3.8}, {14, 1.25, 8.5, 0.92 * 0.9375}, {0, 28, 28, 0.92}};

// 10^9 bytes a second that a host's share of all links above it carries each way.
double host_rate(const Cluster& cluster) {
  double rate = std::numeric_limits<double>::infinity(), hosts = 1;
  for (std::size_t i = 1; i < cluster.levels.size(); ++i) {
    rate = std::min(rate, cluster.levels[i].GBps * cluster.levels[i].ports / hosts);
    hosts *= std::max(cluster.levels[i].members, 1);
  }
  return rate;
}

double gpu_rate(const Cluster& cluster) { return cluster.levels[0].GBps * cluster.levels[0].ports; }

// us
double ring(int protocol, Collective collective, std::int32_t hosts, std::int32_t ranks, double bytes, double rate) {
  const Protocol& about = kRing[protocol];
  const bool is_allreduce = collective == Collective::kAllreduce;
  const double steps = (is_allreduce ? 2.0 : 1.0) * (ranks - 1);
  const double between = hosts == 1 ? 0 : is_allreduce ? 2.0 * hosts : hosts - 1.0;
  const double inside = std::max(about.inside, hosts > 1 ? kRingPosts[protocol] : 0);
  return about.begin + (steps - between) * inside + between * about.between +
         bytes * steps / ranks / (rate * about.share * kBytesPerMicrosecond);
}

double tree(int protocol, std::int32_t hosts, std::int32_t ranks, double bytes, double gpu, double host) {
  const Protocol& about = kTree[protocol];
  const double passes = hosts == 2 ? 1 : 2;  // of all bytes over a host's cards, each way
  const double rate = hosts == 1 ? gpu / 2 : std::min(gpu / 2, host / passes);
  const double hops = std::ceil(static_cast<double>(ranks) / hosts) - 1;
  return about.begin + 2 * (hops * about.inside + std::log2(hosts) * about.between) +
         bytes / (rate * about.share * kBytesPerMicrosecond);
}

// One rank's part between hosts: how long others wait for the links and processors, and how long it takes besides.
struct Exchange {
  double occupied_us = 0;
  double latency_us = 0;
};

// A pipeline of slices over one rank's streams, in microseconds.
class Pipeline {
 public:
  Pipeline(const Cluster& cluster, std::int32_t ranks_of_each, double slice, std::int32_t in_flight)
      : begin_us_(cluster.gpus->copy_us),
        copy_us_(slice / ranks_of_each / (cluster.gpus->copy_GBps * kBytesPerMicrosecond)),
        scatter_us_(1e6 * library_seconds(cluster, Collective::kReduceScatter, 1, ranks_of_each, slice)),
        gather_us_(1e6 * library_seconds(cluster, Collective::kAllgather, 1, ranks_of_each, slice)),
        in_flight_(in_flight) {}

  double run(std::int64_t slices, const Exchange& exchange) {
    ends_.assign(static_cast<std::size_t>(slices), 0);
    arrivals_ = ends_;
    // The library's calls as they become ready: the first of a slice once the one that had its place is on the stream.
    for (std::int64_t scattered = 0, gathered = 0; gathered < slices;) {
      if (scattered < std::min(slices, gathered + in_flight_)) {
        scatter(scattered++, exchange);
      } else {
        gather(gathered++);
      }
    }
    return *std::ranges::max_element(ends_);
  }

 private:
  void scatter(std::int64_t slice, const Exchange& exchange) {
    const double free = slice < in_flight_ ? 0 : ends_[static_cast<std::size_t>(slice - in_flight_)];
    stream_ = std::max(stream_, free) + scatter_us_;
    down_ = std::max(down_, stream_) + copy_us_;
    network_ = std::max(network_, down_ + begin_us_) + exchange.occupied_us;
    arrivals_[static_cast<std::size_t>(slice)] = network_ + exchange.latency_us;
  }
  void gather(std::int64_t slice) {
    const auto number = static_cast<std::size_t>(slice);
    up_ = std::max(up_, arrivals_[number] + begin_us_) + copy_us_;
    stream_ = std::max(stream_, up_) + gather_us_;
    ends_[number] = stream_;
  }

  const double begin_us_, copy_us_, scatter_us_, gather_us_;
  const std::int64_t in_flight_;
  double stream_ = 0, down_ = 0, network_ = 0, up_ = 0;  // until when each is taken
  std::vector<double> arrivals_, ends_;                  // [slice]
};

// All ranks of a host are alike: one of each, with its part of the cards.
std::optional<std::string> exchange_of(const Scenario& scenario, const std::string& algorithm, std::int32_t hosts,
                                       std::int32_t ranks_of_each, double bytes, Exchange* exchange) {
  const Level& above = scenario.cluster.levels[1];
  const double rate = std::min(above.GBps, host_rate(scenario.cluster) / ranks_of_each);
  Scenario between;
  between.cluster = scenario.cluster;
  between.cluster.placement.clear();
  between.cluster.levels = {{above.name, 0, above.latency_us, above.overhead_us, rate}};
  between.plan = {algorithm, Collective::kAllreduce, {{Collective::kAllreduce, algorithm, 0}}};
  between.grid = plan::flat_grid(hosts);
  const auto seconds = [&](double size, double* out) {
    Outcome outcome;
    between.bytes = size;
    auto wrong = simulate(between, executed(between), &outcome);
    *out = outcome.seconds * 1e6;
    return wrong;
  };
  // So much more takes so much longer, once the parts follow each other without a gap.
  constexpr double kFew = 4, kMany = 8;
  double one = 0, few = 0, many = 0;
  if (auto wrong = seconds(bytes, &one)) return wrong;
  if (auto wrong = seconds(kFew * bytes, &few)) return wrong;
  if (auto wrong = seconds(kMany * bytes, &many)) return wrong;
  const double occupied = (many - few) / (kMany - kFew);
  *exchange = {occupied, std::max(0.0, one - occupied)};
  return std::nullopt;
}

}  // namespace

bool has_native(const plan::Plan& plan) {
  return std::ranges::any_of(plan.stages, [](const plan::Stage& s) { return s.algorithm == schedule::kNative; });
}

double library_seconds(const Cluster& cluster, Collective collective, std::int32_t hosts, std::int32_t ranks_of_each,
                       double bytes) {
  const std::int32_t ranks = hosts * ranks_of_each;
  if (ranks == 1) return 0;
  const double gpu = gpu_rate(cluster), host = hosts == 1 ? gpu : host_rate(cluster);
  double best = std::numeric_limits<double>::infinity();
  for (int protocol = 0; protocol < 3; ++protocol) {
    best = std::min(best, ring(protocol, collective, hosts, ranks, bytes, std::min(gpu, host)));
    if (collective == Collective::kAllreduce) {
      best = std::min(best, tree(protocol, hosts, ranks, bytes, gpu, host));
    }
  }
  return best * 1e-6;
}

std::optional<std::string> simulate_on_gpus(const Scenario& scenario, const Options& options, Outcome* outcome) {
  if (auto wrong = wrong_with(scenario.cluster)) return wrong;
  if (!scenario.cluster.gpus) return "the cluster has no \"gpus\": what a library does there is not known";
  const Topology laid = lay_out(scenario.cluster, scenario.grid.ranks());
  const auto hosts = static_cast<std::int32_t>(laid.hosts.size());
  const auto each = static_cast<std::int32_t>(laid.hosts.front().ranks.size());
  const std::vector<plan::Stage>& stages = scenario.plan.stages;
  if (scenario.plan.collective != Collective::kAllreduce) return "of a library only allreduce is known here";
  if (hosts * each != laid.size()) return "the hosts have different numbers of GPUs";
  *outcome = Outcome();
  outcome->ranks = laid.size();
  outcome->classes = 1;
  if (stages.size() == 1) {
    outcome->seconds = library_seconds(scenario.cluster, Collective::kAllreduce, hosts, each, scenario.bytes);
  } else {
    if (hosts < 2) return "all GPUs are on one host";
    const auto is_native = [&](std::size_t stage) { return stages[stage].algorithm == schedule::kNative; };
    if (stages.size() != 3 || !is_native(0) || is_native(1) || !is_native(2)) {
      return "known are a library's collectives alone, and inside hosts with an algorithm between them";
    }
    outcome->pieces = std::max<std::int64_t>(1, std::llround(std::ceil(scenario.bytes / options.slice_bytes)));
    const double slice = scenario.bytes / static_cast<double>(outcome->pieces);
    Exchange exchange;
    if (auto wrong = exchange_of(scenario, stages[1].algorithm, hosts, each, slice / each, &exchange)) return wrong;
    outcome->seconds = 1e-6 * Pipeline(scenario.cluster, each, slice, options.in_flight).run(outcome->pieces, exchange);
  }
  if (outcome->seconds > 0) outcome->algbw_GBps = scenario.bytes / outcome->seconds / 1e9;
  outcome->busbw_GBps = outcome->algbw_GBps * bus_factor(Collective::kAllreduce, outcome->ranks);
  return std::nullopt;
}

}  // namespace roda::sim

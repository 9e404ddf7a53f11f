#include "core/topology/cluster.h"

#include <algorithm>
#include <functional>
#include <map>

#include "plugins/base/format.h"

namespace roda::topology {

namespace {

std::size_t at(int index) { return static_cast<std::size_t>(index); }

// The index of the one set that holds all of `cpus`; -1: none does.
int holder(std::size_t count, const std::function<const CpuSet&(std::size_t)>& set, const CpuSet& cpus) {
  if (cpus.empty()) return -1;
  for (std::size_t i = 0; i < count; ++i) {
    if (contains(set(i), cpus)) return static_cast<int>(i);
  }
  return -1;
}

// Where on its machine a rank is bound, at a level below the host.
int place_of(const Machine& machine, Level level, const CpuSet& cpus) {
  switch (level) {
    case Level::kCache: {
      const CacheLevel* cache = shared_cache(machine);
      if (cache == nullptr) return -1;
      return holder(
          cache->shared_by.size(), [&](std::size_t i) -> const CpuSet& { return cache->shared_by[i]; }, cpus);
    }
    case Level::kNumaNode:
      return holder(
          machine.numa_nodes.size(), [&](std::size_t i) -> const CpuSet& { return machine.numa_nodes[i].cpus; }, cpus);
    case Level::kPackage:
      return holder(
          machine.packages.size(), [&](std::size_t i) -> const CpuSet& { return machine.packages[i].cpus; }, cpus);
    case Level::kHost:
      break;
  }
  return 0;
}

}  // namespace

int Cluster::size() const {
  std::size_t count = 0;
  for (const Host& host : hosts) count += host.ranks.size();
  return static_cast<int>(count);
}

std::vector<int> Cluster::host_of() const {
  std::vector<int> result(at(size()));
  for (std::size_t host = 0; host < hosts.size(); ++host) {
    for (const int rank : hosts[host].ranks) result.at(at(rank)) = static_cast<int>(host);
  }
  return result;
}

const char* level_name(Level level) {
  static constexpr const char* kNames[] = {"cache", "NUMA node", "package", "host"};
  return kNames[static_cast<int>(level)];
}

std::vector<std::vector<int>> groups(const Cluster& cluster, Level level) {
  std::vector<std::vector<int>> result;
  for (const Host& host : cluster.hosts) {
    std::map<int, std::vector<int>> places;
    for (const int rank : host.ranks) {
      int place = 0;
      if (level != Level::kHost) {
        if (at(rank) >= cluster.bindings.size()) return {};
        place = place_of(cluster.machines[at(host.machine)].machine, level, cluster.bindings[at(rank)].cpus);
      }
      if (place < 0) return {};
      places[place].push_back(rank);
    }
    for (auto& [place, ranks] : places) result.push_back(std::move(ranks));
  }
  std::sort(result.begin(), result.end());
  return result;
}

int natural_ranks(const Machine& machine) {
  const std::size_t count = !machine.gpus.empty()    ? machine.gpus.size()
                            : !machine.cores.empty() ? machine.cores.size()
                                                     : machine.cpus.size();
  return std::max(1, static_cast<int>(count));
}

Status lay_out(const Cluster& cluster, int ranks, int per_host, Cluster* result) {
  if (cluster.machines.empty()) return Status::invalid("the topology describes no machine");
  if (!cluster.hosts.empty()) {
    if ((ranks != 0 && ranks != cluster.size()) || per_host != 0) {
      return Status::invalid(
          roda::format("the topology places {} ranks on {} host{}; it can't be laid out for {} ranks{}", cluster.size(),
                       cluster.hosts.size(), cluster.hosts.size() == 1 ? "" : "s", ranks,
                       per_host != 0 ? roda::format(", {} per host", per_host) : ""));
    }
    *result = cluster;
    return {};
  }
  if (cluster.machines.size() > 1) {
    return Status::invalid(roda::format(
        "the topology describes {} machines and no hosts, so it does not say which ranks run where; add \"hosts\"",
        cluster.machines.size()));
  }
  const int each = per_host > 0 ? per_host : natural_ranks(cluster.machines.front().machine);
  if (ranks == 0) ranks = each;
  Cluster laid{cluster.machines, {}, {}};
  for (int first = 0; first < ranks; first += each) {
    Host host{roda::format("host{}", laid.hosts.size()), "", 0, {}};
    for (int rank = first; rank < std::min(ranks, first + each); ++rank) host.ranks.push_back(rank);
    laid.hosts.push_back(std::move(host));
  }
  *result = std::move(laid);
  return {};
}

namespace {

std::string named(std::size_t index, const Host& host) { return roda::format("host {} ({})", index, host.name); }

std::string ranks_text(const std::vector<int>& ranks) {
  return roda::format("{} rank{} ({})", ranks.size(), ranks.size() == 1 ? "" : "s", print_cpus(ranks));
}

Status contradiction(const std::string& what) {
  return Status::invalid("the topology file contradicts the job: " + what +
                         "; start the job so that it agrees, or describe machines only, without \"hosts\"");
}

}  // namespace

Status fit(const Cluster& file, const Found& job, Cluster* result) {
  Cluster fitted{file.machines, job.hosts, file.bindings};
  if (file.hosts.empty()) {
    if (file.machines.size() != 1) {
      return contradiction(
          roda::format("it describes {} machines and does not say which host is which", file.machines.size()));
    }
    for (Host& host : fitted.hosts) host.machine = 0;
    fitted.bindings.clear();
  } else if (file.hosts.size() != job.hosts.size()) {
    return contradiction(roda::format("it has {} host{}, the job runs on {}", file.hosts.size(),
                                      file.hosts.size() == 1 ? "" : "s", job.hosts.size()));
  }
  for (std::size_t i = 0; i < file.hosts.size(); ++i) {
    if (file.hosts[i].ranks != job.hosts[i].ranks) {
      return contradiction(roda::format("{} has {} in the file, {} has {} in the job", named(i, file.hosts[i]),
                                        ranks_text(file.hosts[i].ranks), named(i, job.hosts[i]),
                                        ranks_text(job.hosts[i].ranks)));
    }
    fitted.hosts[i].machine = file.hosts[i].machine;
  }
  *result = std::move(fitted);
  return {};
}

}  // namespace roda::topology

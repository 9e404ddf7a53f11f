#include "core/topology/lay_out.h"

#include <algorithm>

#include "plugins/base/format.h"

namespace roda::topology {

int natural_ranks(const Machine& machine) {
  const std::size_t count = !machine.gpus.empty()    ? machine.gpus.size()
                            : !machine.cores.empty() ? machine.cores.size()
                                                     : machine.cpus.size();
  return std::max(1, static_cast<int>(count));
}

Status lay_out(const Topology& file, int ranks, int per_host, Topology* result) {
  if (file.machines.empty()) return Status::invalid("the topology describes no machine");
  if (!file.hosts.empty()) {
    if ((ranks != 0 && ranks != file.size()) || per_host != 0) {
      return Status::invalid(
          roda::format("the topology places {} ranks on {} host{}; it can't be laid out for {} ranks{}", file.size(),
                       file.hosts.size(), file.hosts.size() == 1 ? "" : "s", ranks,
                       per_host != 0 ? roda::format(", {} per host", per_host) : ""));
    }
    *result = file;
    return {};
  }
  if (file.machines.size() > 1) {
    return Status::invalid(roda::format(
        "the topology describes {} machines and no hosts, so it does not say which ranks run where; add \"hosts\"",
        file.machines.size()));
  }
  const int each = per_host > 0 ? per_host : natural_ranks(file.machines.front().machine);
  if (ranks == 0) ranks = each;
  Topology laid{file.machines, {}, {}, {}, {}};
  for (int first = 0; first < ranks; first += each) {
    Host host{roda::format("host{}", laid.hosts.size()), "", 0, {}};
    for (int rank = first; rank < std::min(ranks, first + each); ++rank) host.ranks.push_back(rank);
    laid.hosts.push_back(std::move(host));
  }
  place_ranks(&laid);
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

Status fit(const Topology& file, Topology* job) {
  if (file.hosts.empty() && file.machines.size() != 1) {
    return contradiction(
        roda::format("it describes {} machines and does not say which host is which", file.machines.size()));
  }
  if (!file.hosts.empty() && file.hosts.size() != job->hosts.size()) {
    return contradiction(roda::format("it has {} host{}, the job runs on {}", file.hosts.size(),
                                      file.hosts.size() == 1 ? "" : "s", job->hosts.size()));
  }
  for (std::size_t i = 0; i < file.hosts.size(); ++i) {
    if (file.hosts[i].ranks == job->hosts[i].ranks) continue;
    return contradiction(roda::format("{} has {} in the file, {} has {} in the job", named(i, file.hosts[i]),
                                      ranks_text(file.hosts[i].ranks), named(i, job->hosts[i]),
                                      ranks_text(job->hosts[i].ranks)));
  }
  job->machines = file.machines;
  for (std::size_t i = 0; i < job->hosts.size(); ++i) {
    job->hosts[i].machine = file.hosts.empty() ? 0 : file.hosts[i].machine;
  }
  job->bindings = file.hosts.empty() ? std::vector<Binding>() : file.bindings;
  return {};
}

}  // namespace roda::topology

#include "core/bootstrap/topology.h"

#include <algorithm>

#include "plugins/base/format.h"
#include "plugins/base/json.h"

namespace roda {

namespace {

using Ranks = std::vector<int>;

std::size_t at(int index) { return static_cast<std::size_t>(index); }

std::vector<Ranks> group_hosts(const std::vector<RankReport>& reports, Topology* topology) {
  std::vector<Ranks> members;
  for (std::size_t rank = 0; rank < reports.size(); ++rank) {
    auto known = std::find(topology->hosts.begin(), topology->hosts.end(), reports[rank].host);
    auto host = static_cast<std::size_t>(known - topology->hosts.begin());
    if (known == topology->hosts.end()) {
      topology->hosts.push_back(reports[rank].host);
      members.emplace_back();
    }
    topology->host_of.push_back(static_cast<int>(host));
    members[host].push_back(static_cast<int>(rank));
  }
  return members;
}

std::string text_of(const std::optional<int>& number) { return number ? roda::format("{}", *number) : "nothing"; }

// What differs between the launcher's numbers and those of a group, as checked below.
struct Naming {
  const char* place;  // " local_rank"
  const char* rank_variable;
  const char* size_variable;
  std::optional<int> RankReport::*rank;
  std::optional<int> RankReport::*size;
};
constexpr Naming kLocal{"host", "HOROVOD_LOCAL_RANK", "HOROVOD_LOCAL_SIZE", &RankReport::local_rank,
                        &RankReport::local_size};
constexpr Naming kCross{"cross group", "HOROVOD_CROSS_RANK", "HOROVOD_CROSS_SIZE", &RankReport::cross_rank,
                        &RankReport::cross_size};

Status contradiction(const Naming& naming, int rank, const std::string& given, const std::string& found,
                     const Ranks& members) {
  return Status(
      RODA_ERR_INVALID,
      roda::format("rank {}: the launcher says {}, but {} (ranks {} share the {}); correct the launcher, or tell "
                   "hosts apart by HOROVOD_HOSTNAME",
                   rank, given, found, roda::join(members, ", "), naming.place),
      rank);
}

// Orders the members of one host or cross group by the launcher's numbers if it gave them.
Status order_group(const std::vector<RankReport>& reports, const Naming& naming, Ranks* members) {
  int size = static_cast<int>(members->size());
  Ranks ordered(members->size(), -1);
  bool given = (reports[at(members->front())].*naming.rank).has_value();
  for (int rank : *members) {
    const auto& place = reports[at(rank)].*naming.rank;
    const auto& group_size = reports[at(rank)].*naming.size;
    if (group_size && *group_size != size) {
      return contradiction(naming, rank, roda::format("{}={}", naming.size_variable, *group_size),
                           roda::format("{} rank{} found", size, size == 1 ? " is" : "s are"), *members);
    }
    std::string says = roda::format("{}={}", naming.rank_variable, text_of(place));
    if (place.has_value() != given) {
      int first = members->front();
      return contradiction(naming, rank, says,
                           roda::format("rank {} says {}", first, text_of(reports[at(first)].*naming.rank)), *members);
    }
    if (!given) continue;
    if (*place >= size) return contradiction(naming, rank, says, roda::format("there are only {}", size), *members);
    if (ordered[at(*place)] >= 0) {
      return contradiction(naming, rank, says, roda::format("rank {} has it too", ordered[at(*place)]), *members);
    }
    ordered[at(*place)] = rank;
  }
  if (given) *members = std::move(ordered);
  return {};
}

Ranks cross_group(const std::vector<Ranks>& members, int local_rank) {
  Ranks group;
  for (const Ranks& host : members) {
    if (at(local_rank) < host.size()) group.push_back(host[at(local_rank)]);
  }
  return group;
}

int index_of(const Ranks& ranks, int rank) {
  return static_cast<int>(std::find(ranks.begin(), ranks.end(), rank) - ranks.begin());
}

// The numbers of one rank once hosts and their order are known.
void fill_numbers(const std::vector<Ranks>& members, int rank, Topology* topology) {
  topology->rank = rank;
  topology->size = static_cast<int>(topology->host_of.size());
  topology->local_rank_of.assign(topology->host_of.size(), 0);
  for (const Ranks& host : members) {
    for (std::size_t i = 0; i < host.size(); ++i) topology->local_rank_of[at(host[i])] = static_cast<int>(i);
    if (host.size() != members.front().size()) topology->is_homogeneous = false;
  }
  topology->local_ranks = members[at(topology->host_of[at(rank)])];
  topology->local_rank = topology->local_rank_of[at(rank)];
  topology->local_size = static_cast<int>(topology->local_ranks.size());
}

void fill_cross(const Ranks& group, Topology* topology) {
  topology->cross_ranks = group;
  topology->cross_rank = index_of(group, topology->rank);
  topology->cross_size = static_cast<int>(group.size());
}

// Of the machine that a rank is on.
bool has_core_each(const std::vector<RankReport>& reports, const std::vector<Ranks>& members, const RankReport& mine) {
  std::vector<CoreBudget> machine;
  int granted = 0;  // by the limits of the single hosts
  for (const Ranks& host : members) {
    const HostIdentity& identity = reports[at(host.front())].host;
    if (identity != mine.host && (identity.boot_id != mine.host.boot_id || identity.boot_id.empty())) continue;
    std::vector<CoreBudget> budgets;
    for (int rank : host) budgets.push_back(reports[at(rank)].cores);
    const int cores = cores_of(budgets);
    if (static_cast<int>(host.size()) > cores) return false;
    granted += cores;
    for (CoreBudget& budget : budgets) budget.quota = 0;
    machine.insert(machine.end(), budgets.begin(), budgets.end());
  }
  return static_cast<int>(machine.size()) <= std::min(granted, cores_of(machine));
}

}  // namespace

Status compute_topology(const std::vector<RankReport>& reports, int rank, Topology* topology) {
  if (rank < 0 || at(rank) >= reports.size()) {
    return Status::invalid(roda::format("rank {} in a job of {}", rank, reports.size()));
  }
  Topology result;
  std::vector<Ranks> members = group_hosts(reports, &result);
  std::size_t widest = 0;
  for (Ranks& host : members) {
    RODA_RETURN_IF_ERROR(order_group(reports, kLocal, &host));
    widest = std::max(widest, host.size());
  }
  fill_numbers(members, rank, &result);
  for (std::size_t local = 0; local < widest; ++local) {
    Ranks group = cross_group(members, static_cast<int>(local));
    RODA_RETURN_IF_ERROR(order_group(reports, kCross, &group));
    if (static_cast<int>(local) == result.local_rank) fill_cross(group, &result);
  }
  for (const RankReport& report : reports) {
    result.pids.push_back(report.pid);
    result.notes.push_back(report.note);
    result.budgets.push_back(report.cores);
  }
  result.has_core_each = has_core_each(reports, members, reports[at(rank)]);
  *topology = std::move(result);
  return {};
}

Topology subset(const Topology& topology, const std::vector<int>& ranks) {
  Topology result;
  result.has_core_each = topology.has_core_each;
  std::vector<Ranks> members;
  std::vector<int> new_host(topology.hosts.size(), -1);
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    int old_host = topology.host_of[at(ranks[i])];
    if (new_host[at(old_host)] < 0) {
      new_host[at(old_host)] = static_cast<int>(members.size());
      members.emplace_back();
      result.hosts.push_back(topology.hosts[at(old_host)]);
    }
    result.host_of.push_back(new_host[at(old_host)]);
    result.pids.push_back(topology.pids[at(ranks[i])]);
    members[at(result.host_of.back())].push_back(static_cast<int>(i));
  }
  auto by_old_local_rank = [&](int a, int b) {
    return topology.local_rank_of[at(ranks[at(a)])] < topology.local_rank_of[at(ranks[at(b)])];
  };
  for (Ranks& host : members) std::sort(host.begin(), host.end(), by_old_local_rank);
  fill_numbers(members, index_of(ranks, topology.rank), &result);
  fill_cross(cross_group(members, result.local_rank), &result);
  return result;
}

std::string Topology::describe(bool as_json) const {
  std::string out;
  if (as_json) {
    out = roda::format(
        R"({{"rank": {}, "size": {}, "local_rank": {}, "local_size": {}, "cross_rank": {}, "cross_size": {}, )"
        R"("is_homogeneous": {}, "hosts": [)",
        rank, size, local_rank, local_size, cross_rank, cross_size, is_homogeneous);
  } else {
    out = roda::format("rank {} of {}, local {} of {}, cross {} of {}, {}\n", rank, size, local_rank, local_size,
                       cross_rank, cross_size, is_homogeneous ? "homogeneous" : "not homogeneous");
  }
  for (std::size_t host = 0; host < hosts.size(); ++host) {
    Ranks on_host;
    for (int r = 0; r < size; ++r) {
      if (host_of[at(r)] == static_cast<int>(host)) on_host.push_back(r);
    }
    std::string ranks = roda::join(on_host, ", ");
    out += as_json ? roda::format(R"({}{{"hostname": {}, "boot_id": {}, "network_namespace": {}, "ranks": [{}]}})",
                                  host > 0 ? ", " : "", json_quote(hosts[host].hostname),
                                  json_quote(hosts[host].boot_id), hosts[host].network_namespace, ranks)
                   : roda::format("  host {} {}: ranks {}\n", host, hosts[host].hostname, ranks);
  }
  return as_json ? out + "]}\n" : out;
}

}  // namespace roda

#include "core/bootstrap/hosts.h"

#include <fcntl.h>
#include <limits.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <sstream>

#include "algorithms/index.h"
#include "core/bootstrap/gather.h"
#include "plugins/base/format.h"
#include "plugins/base/unique_fd.h"

namespace roda {
namespace {

constexpr const char* kBootIdFile = "/proc/sys/kernel/random/boot_id";

// One line; -1 for a number that was not given, "-" for an empty text.
std::string to_line(const RankReport& report) {
  auto text = [](const std::string& value) { return value.empty() ? std::string("-") : value; };
  std::string line =
      roda::format("{} {} {} {} {} {} {} {} {} {} {} {}", text(report.host.boot_id), text(report.host.hostname),
                   report.host.network_namespace, report.pid, report.local_rank.value_or(-1),
                   report.local_size.value_or(-1), report.cross_rank.value_or(-1), report.cross_size.value_or(-1),
                   text(report.note), text(report.ends.here), text(report.ends.there), report.cores.quota);
  for (const auto word : report.cores.cores) line += roda::format(" {:x}", word);
  return line + "\n";
}

bool from_line(const std::string& line, RankReport* report) {
  std::istringstream in(line);
  in >> report->host.boot_id >> report->host.hostname >> report->host.network_namespace >> report->pid;
  for (auto* number : {&report->local_rank, &report->local_size, &report->cross_rank, &report->cross_size}) {
    int given = -1;
    in >> given;
    *number = given < 0 ? std::nullopt : std::optional<int>(given);
  }
  in >> report->note >> report->ends.here >> report->ends.there >> report->cores.quota >> std::hex;
  if (report->ends.here == "-") report->ends = {};
  for (std::uint64_t& word : report->cores.cores) in >> word;
  return !in.fail();
}

Status concatenate(const std::vector<std::string>& all, std::string* result) {
  for (std::size_t rank = 0; rank < all.size(); ++rank) {
    RankReport ignored;
    if (!from_line(all[rank], &ignored)) {
      return Status(RODA_ERR_INVALID, roda::format("rank {} sent a malformed report", rank), static_cast<int>(rank));
    }
    *result += all[rank];
  }
  return {};
}

using Ranks = std::vector<int>;

std::vector<topology::Host> group_hosts(const std::vector<RankReport>& reports) {
  std::vector<topology::Host> hosts;
  std::vector<HostIdentity> known;
  for (std::size_t rank = 0; rank < reports.size(); ++rank) {
    const HostIdentity& identity = reports[rank].host;
    const auto found = std::ranges::find(known, identity);
    const auto host = static_cast<std::size_t>(found - known.begin());
    if (found == known.end()) {
      known.push_back(identity);
      hosts.push_back({identity.hostname,
                       roda::format("boot {}, network namespace {}", identity.boot_id, identity.network_namespace),
                       0,
                       {}});
    }
    hosts[host].ranks.push_back(static_cast<int>(rank));
  }
  return hosts;
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

}  // namespace

HostIdentity this_host(const std::string& hostname_override) {
  HostIdentity host;
  std::ifstream(kBootIdFile) >> host.boot_id;
  host.hostname = hostname_override;
  if (host.hostname.empty()) {
    char name[HOST_NAME_MAX + 1] = "";
    if (::gethostname(name, sizeof name - 1) == 0) host.hostname = name;
  }
  // The name travels in a line of text.
  std::replace_if(
      host.hostname.begin(), host.hostname.end(), [](unsigned char c) { return c <= ' ' || c == 0x7f; }, '_');
  struct stat info {};
  if (::stat("/proc/self/ns/net", &info) == 0) host.network_namespace = info.st_ino;
  return host;
}

Status claim_rank(Store& store, int rank, const HostIdentity& host, const std::string& prefix, Deadline deadline) {
  std::uint64_t nonce = 0;
  if (::getrandom(&nonce, sizeof nonce, 0) != static_cast<ssize_t>(sizeof nonce)) {
    return Status::system("getrandom failed");
  }
  const std::string mine = roda::format("process {} on host {} #{:016x}", ::getpid(), host.hostname, nonce);
  const std::string key = roda::format("{}/owner/{}", prefix, rank);
  std::string owner;
  RODA_RETURN_IF_ERROR(store.put_if_absent(key, mine));
  RODA_RETURN_IF_ERROR(store.wait(key, deadline, &owner));
  if (owner == mine) return {};
  return Status(
      RODA_ERR_PRECONDITION,
      roda::format("rank {} was started twice: {} has this number too. Give every process its own HOROVOD_RANK, "
                   "and every job its own rendezvous",
                   rank, owner.substr(0, owner.find(" #"))),
      rank);
}

Status discover(Store& store, int rank, int size, const Knobs& knobs, const std::string& note,
                const std::string& prefix, Deadline deadline, std::vector<RankReport>* reports) {
  if (size < 1 || rank < 0 || rank >= size) {
    return Status::invalid(roda::format("HOROVOD_RANK={} is not in a job of HOROVOD_SIZE={}", rank, size));
  }
  RankReport mine{this_host(knobs.hostname),
                  static_cast<int>(::getpid()),
                  note,
                  store.ends(),
                  core_budget(),
                  knobs.local_rank,
                  knobs.local_size,
                  knobs.cross_rank,
                  knobs.cross_size};
  // Without it the others take this rank for one of another host.
  if (mine.host.boot_id.empty()) {
    const UniqueFd file(::open(kBootIdFile, O_RDONLY | O_CLOEXEC));
    if (!file && errno != ENOENT && errno != EACCES) return Status::of_errno(roda::format("opening {}", kBootIdFile));
  }
  std::string table;
  RODA_RETURN_IF_ERROR(gather(store, rank, size, prefix, to_line(mine), deadline, concatenate, &table));
  std::vector<RankReport> all;
  std::istringstream lines(table);
  for (std::string line; std::getline(lines, line);) {
    if (!from_line(line, &all.emplace_back())) return Status::unknown("a malformed table of ranks");
  }
  if (all.size() != static_cast<std::size_t>(size)) return Status::unknown("a table of ranks of the wrong size");
  *reports = std::move(all);
  return {};
}

// --- the hosts that the reports tell of ------------------------------------------------------------------------------

Status find_hosts(const std::vector<RankReport>& reports, Topology* topology) {
  Topology found;
  found.hosts = group_hosts(reports);
  place_ranks(&found);
  std::vector<Ranks> members;
  std::size_t widest = 0;
  for (const topology::Host& host : found.hosts) {
    Ranks& ranks = members.emplace_back(host.ranks);
    RODA_RETURN_IF_ERROR(order_group(reports, kLocal, &ranks));
    for (std::size_t i = 0; i < ranks.size(); ++i) found.numbers[at(ranks[i])].local_rank = static_cast<int>(i);
    widest = std::max(widest, ranks.size());
  }
  for (std::size_t local = 0; local < widest; ++local) {
    Ranks group = cross_group(members, static_cast<int>(local));
    RODA_RETURN_IF_ERROR(order_group(reports, kCross, &group));
    for (std::size_t i = 0; i < group.size(); ++i) found.numbers[at(group[i])].cross_rank = static_cast<int>(i);
  }
  *topology = std::move(found);
  return {};
}

std::vector<std::string> known_addresses(const std::vector<RankReport>& reports, int rank) {
  if (const std::string& own = reports[at(rank)].ends.here; !own.empty()) return {own};
  std::vector<std::string> found;
  for (const RankReport& report : reports) {
    const bool is_new = std::ranges::find(found, report.ends.there) == found.end();
    if (!report.ends.there.empty() && is_new) found.push_back(report.ends.there);
  }
  return found;
}

int host_cores(const std::vector<RankReport>& reports, const Topology& topology, int rank) {
  std::vector<CoreBudget> budgets;
  for (const int neighbour : topology.host_of(rank).ranks) budgets.push_back(reports[at(neighbour)].cores);
  return cores_of(budgets);
}

bool has_core_each(const std::vector<RankReport>& reports, const Topology& topology, int rank) {
  const HostIdentity& mine = reports[at(rank)].host;
  std::vector<CoreBudget> machine;
  int granted = 0;  // by the limits of the single hosts
  for (const topology::Host& host : topology.hosts) {
    const HostIdentity& identity = reports[at(host.ranks.front())].host;
    if (identity != mine && (identity.boot_id != mine.boot_id || identity.boot_id.empty())) continue;
    std::vector<CoreBudget> budgets;
    for (const int neighbour : host.ranks) budgets.push_back(reports[at(neighbour)].cores);
    const int cores = cores_of(budgets);
    if (static_cast<int>(host.ranks.size()) > cores) return false;
    granted += cores;
    for (CoreBudget& budget : budgets) budget.quota = 0;
    machine.insert(machine.end(), budgets.begin(), budgets.end());
  }
  return static_cast<int>(machine.size()) <= std::min(granted, cores_of(machine));
}

}  // namespace roda

#include "core/bootstrap/hosts.h"

#include <fcntl.h>
#include <limits.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <fstream>
#include <map>
#include <ranges>
#include <sstream>
#include <utility>

#include "algorithms/index.h"
#include "core/bootstrap/columns.h"
#include "core/bootstrap/gather.h"
#include "plugins/base/format.h"
#include "plugins/base/unique_fd.h"

namespace roda {
namespace {

constexpr const char* kBootIdFile = "/proc/sys/kernel/random/boot_id";

constexpr std::optional<int> RankReport::*kNumbers[] = {&RankReport::local_rank, &RankReport::local_size,
                                                        &RankReport::cross_rank, &RankReport::cross_size};

// Texts are words: "-" stands for an empty one.
std::string word_of(const std::string& text) { return text.empty() ? "-" : text; }
std::string text_of_word(const std::string& word) { return word == "-" ? "" : word; }

std::string to_word(const CoreBudget& budget) {
  std::string word = roda::format("{}", budget.quota);
  const auto last = std::ranges::find_if(budget.cores | std::views::reverse, [](auto bits) { return bits != 0; });
  for (auto bits = budget.cores.begin(); bits != last.base(); ++bits) word += roda::format(",{:x}", *bits);
  return word;
}

bool from_word(std::string word, CoreBudget* budget) {
  std::ranges::replace(word, ',', ' ');
  std::istringstream in(word);
  *budget = CoreBudget();
  if (!(in >> budget->quota)) return false;
  in >> std::hex;
  for (auto bits = budget->cores.begin(); in >> std::ws && !in.eof(); ++bits) {
    if (bits == budget->cores.end() || !(in >> *bits)) return false;
  }
  return true;
}

// One line; -1 for a number that was not given.
std::string to_line(const RankReport& report) {
  std::string line = roda::format("{} {} {} {} {} {}", word_of(report.host.boot_id), word_of(report.host.hostname),
                                  report.host.network_namespace, word_of(report.note), word_of(report.ends.there),
                                  to_word(report.cores));
  for (auto number : kNumbers) line += roda::format(" {}", (report.*number).value_or(-1));
  return line + "\n";
}

bool from_line(const std::string& line, RankReport* report) {
  std::istringstream in(line);
  std::string budget;
  in >> report->host.boot_id >> report->host.hostname >> report->host.network_namespace >> report->note >>
      report->ends.there >> budget;
  for (auto number : kNumbers) {
    int given = -1;
    in >> given;
    report->*number = given < 0 ? std::nullopt : std::optional<int>(given);
  }
  for (std::string* word : {&report->host.boot_id, &report->host.hostname, &report->note, &report->ends.there}) {
    *word = text_of_word(*word);
  }
  return !in.fail() && from_word(std::move(budget), &report->cores);
}

// How values differ from those before them: where hosts are alike, the same for each host.
class Differences {
 public:
  void add(int value) { words.push_back(std::to_string(value - std::exchange(before_, value))); }
  static bool read(const std::vector<std::string>& words, std::vector<int>* values) {
    std::int64_t value = 0;
    for (const std::string& word : words) {
      int difference = 0;
      const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), difference);
      value += difference;
      if (error != std::errc() || value < -1 || value > INT32_MAX) return false;
      values->push_back(static_cast<int>(value));
    }
    return true;
  }

  std::vector<std::string> words;

 private:
  int before_ = 0;
};

// Numbers things in the order in which they are first asked for, from 1 up.
template <typename Thing>
int number_of(const Thing& thing, std::map<Thing, int>* numbers) {
  return numbers->try_emplace(thing, static_cast<int>(numbers->size()) + 1).first->second;
}

Status tabulate(const std::vector<std::string>& all, std::string* result) {
  std::vector<RankReport> reports(all.size());
  for (std::size_t rank = 0; rank < all.size(); ++rank) {
    if (!from_line(all[rank], &reports[rank])) {
      return Status(RODA_ERR_INVALID, roda::format("rank {} sent a malformed report", rank), static_cast<int>(rank));
    }
  }
  *result = table_of(reports);
  return {};
}

using Ranks = std::vector<int>;

std::vector<topology::Host> group_hosts(const std::vector<RankReport>& reports) {
  std::vector<topology::Host> hosts;
  std::map<HostIdentity, std::size_t> known;
  for (std::size_t rank = 0; rank < reports.size(); ++rank) {
    const HostIdentity& identity = reports[rank].host;
    const auto [host, is_new] = known.try_emplace(identity, hosts.size());
    if (is_new) {
      hosts.push_back({identity.hostname,
                       roda::format("boot {}, network namespace {}", identity.boot_id, identity.network_namespace),
                       0,
                       {}});
    }
    hosts[host->second].ranks.push_back(static_cast<int>(rank));
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
  RODA_RETURN_IF_ERROR(gather(store, rank, size, prefix, to_line(mine), deadline, tabulate, &table));
  std::vector<RankReport> all(static_cast<std::size_t>(size));
  if (!reports_of(table, &all)) return Status::unknown("a malformed table of ranks");
  all[at(rank)].ends.here = mine.ends.here;
  *reports = std::move(all);
  return {};
}

// --- the reports of all ----------------------------------------------------------------------------------------------

// A line with the number of hosts; a column each of the hosts' names, boots and network namespaces; of the ranks'
// hosts, notes, ends, cores and numbers.
std::string table_of(const std::vector<RankReport>& reports) {
  std::map<HostIdentity, int> hosts;
  std::map<std::string, int> boots;
  std::map<std::uint64_t, int> namespaces;
  std::vector<std::string> names, notes, ends, cores;
  Differences boot, space, host, numbers[std::size(kNumbers)];
  for (const RankReport& report : reports) {
    const std::size_t known = hosts.size();
    host.add(number_of(report.host, &hosts) - 1);
    if (hosts.size() > known) {
      names.push_back(word_of(report.host.hostname));
      boot.add(report.host.boot_id.empty() ? 0 : number_of(report.host.boot_id, &boots));
      space.add(number_of(report.host.network_namespace, &namespaces));
    }
    notes.push_back(word_of(report.note));
    ends.push_back(word_of(report.ends.there));
    cores.push_back(to_word(report.cores));
    for (std::size_t i = 0; i < std::size(kNumbers); ++i) numbers[i].add((report.*kNumbers[i]).value_or(-1));
  }
  std::string text = roda::format("{}\n", names.size());
  for (const auto* column : {&names, &boot.words, &space.words, &host.words, &notes, &ends, &cores}) {
    text += to_column(*column);
  }
  for (const Differences& number : numbers) text += to_column(number.words);
  return text;
}

bool reports_of(std::string_view text, std::vector<RankReport>* reports) {
  std::size_t count = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), count);
  if (error != std::errc() || count > reports->size() || end == text.data() + text.size()) return false;
  text.remove_prefix(static_cast<std::size_t>(end - text.data()) + 1);
  std::vector<std::string> names, notes, ends, cores, words;
  const auto take_numbers = [&](std::size_t of, std::vector<int>* values) {
    return take_column(&text, of, &words) && Differences::read(words, values);
  };
  std::vector<int> boots, spaces, hosts, numbers[std::size(kNumbers)];
  const std::size_t ranks = reports->size();
  bool is_sound = take_column(&text, count, &names) && take_numbers(count, &boots) && take_numbers(count, &spaces) &&
                  take_numbers(ranks, &hosts) && take_column(&text, ranks, &notes) &&
                  take_column(&text, ranks, &ends) && take_column(&text, ranks, &cores);
  for (auto& column : numbers) is_sound = is_sound && take_numbers(ranks, &column);
  for (std::size_t rank = 0; is_sound && rank < ranks; ++rank) {
    RankReport& report = (*reports)[rank];
    const auto host = static_cast<std::size_t>(hosts[rank]);
    if (host >= count || !from_word(cores[rank], &report.cores)) return false;
    report.host = {boots[host] > 0 ? std::to_string(boots[host]) : "", text_of_word(names[host]),
                   static_cast<std::uint64_t>(spaces[host])};
    report.note = text_of_word(notes[rank]);
    report.ends.there = text_of_word(ends[rank]);
    for (std::size_t i = 0; i < std::size(kNumbers); ++i) {
      if (numbers[i][rank] >= 0) report.*kNumbers[i] = numbers[i][rank];
    }
  }
  return is_sound;
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

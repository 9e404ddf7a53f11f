#include "core/topology/exchange.h"

#include <algorithm>
#include <map>

#include "algorithms/index.h"
#include "core/topology/json.h"
#include "core/topology/lay_out.h"
#include "plugins/base/format.h"
#include "plugins/base/log.h"

namespace roda::topology {
namespace {

// What a rank said of what it sees.
struct Note {
  bool is_file = false;
  std::string hash;  // empty: the note could not be read
};

Note from_text(const std::string& text) {
  const std::size_t colon = text.find(':');
  return colon == std::string::npos ? Note() : Note{text.substr(0, colon) == "file", text.substr(colon + 1)};
}

using Machines = std::map<std::string, Machine>;  // by hash

Status receive(Store& store, const std::string& key, int owner, Deadline deadline, Machine* machine) {
  std::string text;
  const Status status = store.wait(key, deadline, &text);
  if (status.code() == RODA_ERR_TIMEOUT) {
    return Status(RODA_ERR_TIMEOUT, roda::format("rank {} has not sent the topology of its machine in time", owner),
                  owner);
  }
  RODA_RETURN_IF_ERROR(status);
  if (from_json(text, machine).ok()) return {};
  *machine = Machine();
  machine->absent["machine"] = roda::format("rank {} sent a malformed description", owner);
  return {};
}

// The machines behind the hashes that the ranks reported, the same on every rank.
Status exchange(Store& store, int rank, const std::vector<Note>& notes, const Machine& mine, const std::string& prefix,
                Deadline deadline, Machines* machines) {
  std::vector<int> owners;  // of each kind: the lowest rank that reported it
  for (int each = 0; each < static_cast<int>(notes.size()); ++each) {
    const std::string& hash = notes[at(each)].hash;
    const auto [entry, is_new] = machines->try_emplace(hash);
    if (!is_new) continue;
    auto& absent = entry->second.absent;
    if (hash.empty()) absent["machine"] = roda::format("rank {} said nothing that could be read", each);
    if (owners.size() >= kMostShapes) absent["machine"] = roda::format("{} other kinds were exchanged", kMostShapes);
    owners.push_back(each);
  }
  std::erase_if(owners, [&](int owner) { return !machines->at(notes[at(owner)].hash).absent.empty(); });
  const auto key = [&](int owner) { return roda::format("{}/shape/{}", prefix, notes[at(owner)].hash); };
  if (machines->size() > 1 && std::ranges::binary_search(owners, rank)) {
    RODA_RETURN_IF_ERROR(store.put(key(rank), to_json(mine)));
  }
  const std::string own = hash(mine);
  for (const int owner : owners) {
    Machine& machine = machines->at(notes[at(owner)].hash);
    if (notes[at(owner)].hash == own) {
      machine = mine;
    } else {
      RODA_RETURN_IF_ERROR(receive(store, key(owner), owner, deadline, &machine));
    }
  }
  return {};
}

const char* plural(const std::vector<int>& ranks) { return ranks.size() > 1 ? "s" : ""; }

// Descriptions that can't both be true of one host are an error, the same on every rank of the job. Other differences
// are a warning of the host's own ranks.
Status compare_views(const Host& host, const std::vector<Note>& notes, const Machines& machines, int rank) {
  const int first = host.ranks.front();
  const Machine& expected = machines.at(notes[at(first)].hash);
  std::map<std::string, std::vector<int>> others;  // who sees something else than the lowest rank, by what they see
  for (const int each : host.ranks) {
    if (notes[at(each)].hash != notes[at(first)].hash) others[notes[at(each)].hash].push_back(each);
  }
  for (const auto& [hash, ranks] : others) {
    const std::string here = roda::format("for rank {}", first);
    const std::string there = roda::format("for rank{} {}", plural(ranks), print_cpus(ranks));
    const std::string who = roda::format("rank {} and rank{} {} are on one host, {}, and see different machines", first,
                                         plural(ranks), print_cpus(ranks), host.name);
    const std::string wrong = contradiction(expected, machines.at(hash), here, there);
    if (!wrong.empty()) {
      return Status(RODA_ERR_PRECONDITION,
                    roda::format("{}: {}; give every rank the same HWLOC_* variables and the same view of /sys, or, if "
                                 "these are several machines, a HOROVOD_HOSTNAME of its own to each",
                                 who, wrong),
                    ranks.front());
    }
    if (std::ranges::binary_search(host.ranks, rank)) {
      RODA_LOG(warning, "{}: {}; rank {}'s view counts", who, difference(expected, machines.at(hash), here, there),
               first);
    }
  }
  return {};
}

Status discovered(Store& store, int rank, const std::vector<RankReport>& reports, const std::vector<Note>& notes,
                  const Machine& mine, const std::string& prefix, Deadline deadline, Topology* topology) {
  Machines machines;
  RODA_RETURN_IF_ERROR(exchange(store, rank, notes, mine, prefix, deadline, &machines));
  std::map<std::string, int> index;
  for (Host& host : topology->hosts) {
    const std::string& hash = notes[at(host.ranks.front())].hash;
    const auto [known, is_new] = index.emplace(hash, static_cast<int>(topology->machines.size()));
    if (is_new) topology->machines.push_back({roda::format("m{:02}", known->second), machines.at(hash)});
    host.machine = known->second;
    RODA_RETURN_IF_ERROR(compare_views(host, notes, machines, rank));
  }
  for (std::size_t each = 0; each < reports.size(); ++each) {
    const Host& host = topology->host_of(static_cast<int>(each));
    topology->bindings.push_back(binding(topology->machines[at(host.machine)].machine, reports[each].cores));
  }
  return {};
}

Status from_file(const std::vector<Note>& notes, const View& mine, Topology* topology) {
  const auto with_file = std::ranges::find_if(notes, [](const Note& note) { return note.is_file; });
  std::vector<int> others;
  for (std::size_t rank = 0; rank < notes.size(); ++rank) {
    if (!notes[rank].is_file || notes[rank].hash != with_file->hash) others.push_back(static_cast<int>(rank));
  }
  if (!others.empty()) {
    return Status(RODA_ERR_INVALID,
                  roda::format("rank{} {} read another RODA_TOPOLOGY_FILE than rank {}, or none; give every rank the "
                               "same file",
                               plural(others), print_cpus(others), with_file - notes.begin()),
                  others.front());
  }
  return fit(*mine.file, topology);
}

}  // namespace

void shorten(Machine* machine) {
  const std::size_t bytes = to_json(*machine).size();
  if (bytes <= Store::kMaxValue) return;
  const std::string why = roda::format("the description has {} bytes; {} are exchanged", bytes, Store::kMaxValue);
  machine->cores.clear();
  machine->caches.clear();
  machine->absent["cores"] = machine->absent["caches"] = why;
  if (to_json(*machine).size() <= Store::kMaxValue) return;
  *machine = Machine();
  machine->absent["machine"] = why;
}

Status look(const Knobs& knobs, const DiscoverOptions& options, View* view) {
  View seen;
  if (!knobs.topology_file.empty()) {
    RODA_RETURN_IF_ERROR(load_file(knobs.topology_file, &seen.file.emplace()));
  } else {
    seen.machine = discover_machine(options);
    shorten(&seen.machine);
  }
  *view = std::move(seen);
  return {};
}

std::string note_of(const View& view) {
  return view.file ? "file:" + hash(*view.file) : "machine:" + hash(view.machine);
}

Status share(Store& store, int rank, const std::vector<RankReport>& reports, const View& mine,
             const std::string& prefix, Deadline deadline, Topology* topology) {
  std::vector<Note> notes;
  for (const RankReport& report : reports) notes.push_back(from_text(report.note));
  if (std::ranges::any_of(notes, [](const Note& note) { return note.is_file; })) {
    return from_file(notes, mine, topology);
  }
  return discovered(store, rank, reports, notes, mine.machine, prefix, deadline, topology);
}

Topology alone(const View& view, const std::string& hostname) {
  if (view.file) return *view.file;
  Topology topology{{{"m00", view.machine}}, {{hostname, "", 0, {0}}}, {binding(view.machine, core_budget())}, {}, {}};
  place_ranks(&topology);
  return topology;
}

std::vector<Shortage> shortages(const Topology& topology) {
  std::vector<Shortage> found;
  if (topology.bindings.empty()) return found;
  for (const Host& host : topology.hosts) {
    CpuSet cpus;
    double limit = 0;
    for (const int rank : host.ranks) {
      const Binding& binding = topology.bindings[at(rank)];
      if (binding.cpus.empty()) return found;
      cpus.insert(cpus.end(), binding.cpus.begin(), binding.cpus.end());
      if (binding.cpu_limit > 0 && (limit == 0 || binding.cpu_limit < limit)) limit = binding.cpu_limit;
    }
    std::ranges::sort(cpus);
    cpus.erase(std::unique(cpus.begin(), cpus.end()), cpus.end());
    const double cores =
        limit > 0 ? std::min(limit, static_cast<double>(cpus.size())) : static_cast<double>(cpus.size());
    if (cores >= static_cast<double>(host.ranks.size())) continue;
    const bool is_limit = cpus.size() >= host.ranks.size();
    found.push_back(
        {host.ranks, is_limit,
         roda::format("{}: {} ranks ({}) have {:.3g} cores between them{}; waiting ranks yield instead of "
                      "spinning",
                      host.name, host.ranks.size(), print_cpus(host.ranks), cores,
                      limit > 0 && limit < static_cast<double>(cpus.size()) ? " (limit of their cgroup)" : "")});
  }
  return found;
}

}  // namespace roda::topology

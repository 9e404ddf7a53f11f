#include "core/topology/lay_out.h"

#include <algorithm>
#include <charconv>
#include <map>
#include <sstream>
#include <utility>

#include "plugins/base/format.h"

namespace roda::topology {

int natural_ranks(const Machine& machine) {
  const std::size_t count = !machine.gpus.empty()    ? machine.gpus.size()
                            : !machine.cores.empty() ? machine.cores.size()
                                                     : machine.cpus.size();
  return std::max(1, static_cast<int>(count));
}

Status lay_out(const Topology& file, int ranks, Topology* result) {
  if (file.machines.empty()) return Status::invalid("the topology describes no machine");
  if (!file.hosts.empty()) {
    if (ranks != 0 && ranks != file.size()) {
      return Status::invalid(
          roda::format("the topology places {} ranks on {} host{}; it can't be laid out for {} ranks", file.size(),
                       file.hosts.size(), file.hosts.size() == 1 ? "" : "s", ranks));
    }
    *result = file;
    return {};
  }
  if (file.machines.size() > 1) {
    return Status::invalid(roda::format(
        "the topology describes {} machines and no hosts, so it does not say which ranks run where; add \"hosts\"",
        file.machines.size()));
  }
  const int each = natural_ranks(file.machines.front().machine);
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

using Units = std::vector<std::int32_t>;

constexpr const char* kBound[] = {"cache", "numa", "package"};

bool is_bound_level(const std::string& name) { return std::ranges::find(kBound, name) != std::end(kBound); }

// The sets of CPUs that the places of a level are.
std::vector<CpuSet> places_of(const Machine& machine, const std::string& level) {
  std::vector<CpuSet> places;
  const CacheLevel* cache = shared_cache(machine);
  if (level == "cache" && cache != nullptr) return cache->shared_by;
  if (level == "numa") {
    for (const NumaNode& node : machine.numa_nodes) places.push_back(node.cpus);
  } else if (level == "package") {
    for (const Package& package : machine.packages) places.push_back(package.cpus);
  }
  return places;
}

Status refused(const std::string& what) { return Status::invalid("RODA_LEVELS: " + what); }

// `count` consecutive units of the level below make one; inside hosts they are counted in each host.
Units bundle(const Units& below, const Units& hosts, bool is_inside, std::int32_t count) {
  std::map<std::int32_t, std::map<std::int32_t, std::int32_t>> seen;  // by host: units below, in order
  std::map<std::pair<std::int32_t, std::int32_t>, std::int32_t> numbers;
  Units units;
  for (std::size_t rank = 0; rank < below.size(); ++rank) {
    const std::int32_t host = is_inside ? hosts[rank] : 0;
    auto& order = seen[host];
    const std::int32_t place = order.emplace(below[rank], static_cast<std::int32_t>(order.size())).first->second;
    const std::pair key{host, place / count};
    units.push_back(numbers.emplace(key, static_cast<std::int32_t>(numbers.size())).first->second);
  }
  return units;
}

// Whether every unit of `inner` lies in one unit of `outer`; *same: they are the same units.
bool is_nested(const Units& inner, const Units& outer, bool* same) {
  std::map<std::int32_t, std::int32_t> in, out;
  *same = true;
  for (std::size_t rank = 0; rank < inner.size(); ++rank) {
    if (in.emplace(inner[rank], outer[rank]).first->second != outer[rank]) return false;
    *same = *same && out.emplace(outer[rank], inner[rank]).first->second == inner[rank];
  }
  return true;
}

std::vector<Level> known_levels(const Topology& topology, const Level& host) {
  std::vector<Level> levels;
  const auto add = [&levels](Level level) {
    bool same = false;
    if (level.units.empty()) return;
    if (!levels.empty() && !is_nested(levels.back().units, level.units, &same)) return;
    if (same) levels.pop_back();  // the outer one's name says more
    levels.push_back(std::move(level));
  };
  for (const char* name : kBound) add({name, bound_units(topology, name)});
  add(host);
  return levels;
}

// One word of the list.
Status add_level(const std::string& word, const Topology& topology, const Level& host, bool is_inside,
                 std::vector<Level>* levels) {
  const std::size_t equals = word.find('=');
  Level level{word.substr(0, equals), {}};
  if (equals != std::string::npos) {
    std::int32_t count = 0;
    const auto [end, error] = std::from_chars(word.data() + equals + 1, word.data() + word.size(), count);
    if (level.name == kHost || level.name.empty() || error != std::errc() || count < 1 ||
        end != word.data() + word.size()) {
      return refused("\"" + word + "\" is no level: give NAME=N with a whole number from 1, and not for host");
    }
    Units ranks;
    for (std::size_t rank = 0; rank < host.units.size(); ++rank) ranks.push_back(static_cast<std::int32_t>(rank));
    level.units = bundle(levels->empty() ? ranks : levels->back().units, host.units, is_inside, count);
  } else if (level.name == kHost) {
    level = host;
  } else if (is_bound_level(level.name)) {
    level.units = bound_units(topology, level.name);
    if (level.units.empty()) {
      return refused("the topology does not tell the ranks' " + level.name + ": some rank is bound to no one of them");
    }
  } else {
    return refused("there is no level \"" + level.name + "\": give cache, numa, package, host or NAME=N");
  }
  bool same = false;
  if (!levels->empty() && !is_nested(levels->back().units, level.units, &same)) {
    return refused("the ranks of one " + levels->back().name + " are in several of " + level.name +
                   ": name the levels from the inside out");
  }
  levels->push_back(std::move(level));
  return {};
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

// --- levels ----------------------------------------------------------------------------------------------------------

std::vector<std::int32_t> bound_units(const Topology& topology, const std::string& level) {
  Units units;
  std::map<std::pair<int, std::ptrdiff_t>, std::int32_t> numbers;  // by host and place on it
  if (topology.bindings.empty()) return {};
  for (int rank = 0; rank < topology.size(); ++rank) {
    const Host& host = topology.host_of(rank);
    const CpuSet& cpus = topology.bindings[static_cast<std::size_t>(rank)].cpus;
    const auto places = places_of(topology.machines[static_cast<std::size_t>(host.machine)].machine, level);
    const auto place = std::ranges::find_if(places, [&](const CpuSet& all) { return contains(all, cpus); });
    if (cpus.empty() || place == places.end()) return {};
    const std::pair key{topology.rank(rank).host, place - places.begin()};
    units.push_back(numbers.emplace(key, static_cast<std::int32_t>(numbers.size())).first->second);
  }
  return units;
}

Status find_levels(const std::string& text, Topology* topology) {
  const Level host = topology->levels[host_level(topology->levels)];
  std::vector<Level> levels;
  if (text.empty()) levels = {host};
  if (text == "auto") levels = known_levels(*topology, host);
  std::istringstream words(levels.empty() ? text : "");
  const auto has_host = [&levels] {
    return std::ranges::any_of(levels, [](const Level& level) { return level.name == kHost; });
  };
  for (std::string word; std::getline(words, word, ',');) {
    RODA_RETURN_IF_ERROR(add_level(word, *topology, host, !has_host(), &levels));
  }
  if (!has_host()) return refused("\"" + text + "\" names no host");
  topology->levels = std::move(levels);
  return {};
}

}  // namespace roda::topology

#include "algorithms/topology/topology.h"

#include <algorithm>

namespace roda {

namespace topology {

std::size_t host_level(const std::vector<Level>& levels) {
  const auto host = std::ranges::find_if(levels, [](const Level& level) { return level.name == kHost; });
  return host == levels.end() ? 0 : static_cast<std::size_t>(host - levels.begin());
}

}  // namespace topology

int Topology::cross_size(int rank) const {
  const auto local = static_cast<std::size_t>(this->rank(rank).local_rank);
  return static_cast<int>(std::ranges::count_if(hosts, [&](const auto& host) { return host.ranks.size() > local; }));
}

bool Topology::is_homogeneous() const {
  return std::ranges::all_of(hosts,
                             [this](const auto& host) { return host.ranks.size() == hosts.front().ranks.size(); });
}

std::vector<int> Topology::neighbours(int rank) const {
  std::vector<int> ranks = host_of(rank).ranks;
  std::ranges::sort(ranks, [this](int a, int b) { return this->rank(a).local_rank < this->rank(b).local_rank; });
  return ranks;
}

void place_ranks(Topology* topology) {
  std::size_t size = 0;
  for (const auto& host : topology->hosts) size += host.ranks.size();
  topology->numbers.assign(size, {});
  topology::Level hosts{topology::kHost, std::vector<std::int32_t>(size)};
  std::vector<int> seen;  // [local rank] hosts so far
  for (std::size_t host = 0; host < topology->hosts.size(); ++host) {
    int local = 0;
    for (const int rank : topology->hosts[host].ranks) {
      const auto at = static_cast<std::size_t>(rank);
      if (static_cast<std::size_t>(local) == seen.size()) seen.push_back(0);
      topology->numbers[at] = {static_cast<int>(host), local, seen[static_cast<std::size_t>(local)]++};
      hosts.units[at] = static_cast<std::int32_t>(host);
      ++local;
    }
  }
  topology->levels = {std::move(hosts)};
}

std::vector<topology::Level> levels_of(const Topology& topology, const std::vector<std::int32_t>& ranks) {
  std::vector<topology::Level> some;
  for (const topology::Level& level : topology.levels) {
    auto& units = some.emplace_back(topology::Level{level.name, {}}).units;
    for (const std::int32_t rank : ranks) units.push_back(level.units[static_cast<std::size_t>(rank)]);
  }
  return some;
}

}  // namespace roda

#include "tools/sim/model/cluster.h"

#include <algorithm>
#include <limits>
#include <utility>

namespace roda::sim {
namespace {

constexpr double kBytesPerPicosecond = 1e-3;  // of 1 GB/s
constexpr double kLongestTime = 1e6;          // us, of a latency or overhead: rounds of it must fit the clock

std::optional<std::string> wrong_level(const Level& level, bool last) {
  const std::string name = "level " + level.name + ": ";
  if (level.name.empty()) return "a level has no name";
  if (level.members < 0 || (level.members == 0 && !last)) return name + "members must be at least 1";
  const auto is_time = [](double us) { return us >= 0 && us <= kLongestTime; };
  if (!is_time(level.latency_us) || !is_time(level.overhead_us)) return name + "times must be from 0 to 1 s";
  if (!(level.GBps > 0) || !(level.total_GBps >= 0)) return name + "bandwidths must be positive";
  if (level.ports < 1) return name + "ports must be at least 1";
  return std::nullopt;
}

}  // namespace

std::optional<std::string> wrong_with(const Cluster& cluster) {
  if (cluster.levels.empty()) return "a cluster has at least one level";
  for (std::size_t i = 0; i < cluster.levels.size(); ++i) {
    if (auto wrong = wrong_level(cluster.levels[i], i + 1 == cluster.levels.size())) return wrong;
  }
  if (!(cluster.reduce_GBps > 0) || !(cluster.copy_GBps > 0)) return "reduce_GBps and copy_GBps must be positive";
  for (const std::int32_t ranks : cluster.placement) {
    if (ranks < 1) return "placement: every unit has at least 1 rank";
    const std::int32_t most = cluster.levels[0].members;
    if (most > 0 && ranks > most)
      return "placement: " + std::to_string(ranks) + " ranks where " + std::to_string(most) + " have room";
  }
  return std::nullopt;
}

std::optional<std::string> why_no_room(const Cluster& cluster, std::int32_t ranks) {
  if (ranks < 1) return "there must be at least 1 rank";
  std::int64_t placed = 0;
  for (const std::int32_t each : cluster.placement) placed += each;
  if (placed > 0 && placed != ranks) {
    return "the placement is of " + std::to_string(placed) + " ranks, not " + std::to_string(ranks);
  }
  std::int64_t room = 1;
  for (const Level& level : cluster.levels) {
    if (level.members == 0) return std::nullopt;
    room *= level.members;
    if (room > std::numeric_limits<std::int32_t>::max()) return std::nullopt;
  }
  const auto hosts = static_cast<std::int64_t>(cluster.placement.size());
  if (hosts > 0 ? hosts * cluster.levels[0].members <= room : ranks <= room) return std::nullopt;
  return "cluster " + cluster.name + " has room for " + std::to_string(room) + " ranks, not " + std::to_string(ranks);
}

Topology lay_out(const Cluster& cluster, std::int32_t ranks) {
  const std::int32_t each = cluster.levels[0].members > 0 ? cluster.levels[0].members : ranks;
  Topology topology;
  for (std::int32_t rank = 0; rank < ranks;) {
    const std::size_t host = topology.hosts.size();
    const std::int32_t end = std::min(ranks, rank + (cluster.placement.empty() ? each : cluster.placement[host]));
    auto& on_host = topology.hosts.emplace_back().ranks;
    while (rank < end) on_host.push_back(rank++);
  }
  place_ranks(&topology);
  const std::vector<std::int32_t> host_of = std::move(topology.levels.front().units);
  topology.levels.clear();
  std::int64_t per = 1;
  for (std::size_t level = 0; level + 1 < cluster.levels.size(); ++level) {
    if (level > 0) per = std::min<std::int64_t>(per * cluster.levels[level].members, ranks);
    auto& units = topology.levels.emplace_back(topology::Level{cluster.levels[level].name, {}}).units;
    for (const std::int32_t host : host_of) units.push_back(host / static_cast<std::int32_t>(per));
  }
  return topology;
}

std::size_t Routes::meeting(std::int32_t a, std::int32_t b) const {
  std::size_t level = 0;
  while (level < topology_.levels.size() && unit(level, a) != unit(level, b)) ++level;
  return level;
}

void Routes::climb(std::int32_t rank, std::size_t top, bool up, std::vector<Link>* links) const {
  for (std::size_t level = 0; level <= top; ++level) {
    const Level& about = cluster_.levels[level];
    const std::int32_t member = level == 0 ? rank : unit(level - 1, rank);
    const LinkKind kind = up || !about.full_duplex ? LinkKind::kUp : LinkKind::kDown;
    const std::int32_t port = level == 0 ? 0 : topology_.rank(rank).local_rank % about.ports;
    links->push_back({static_cast<std::int32_t>(level), kind, member, port});
    const bool counted_by_other_end = level == top && !up;
    if (about.total_GBps > 0 && !counted_by_other_end) {
      links->push_back({static_cast<std::int32_t>(level), LinkKind::kTotal, unit(level, rank), 0});
    }
  }
}

void Routes::route(std::int32_t a, std::int32_t b, std::vector<Link>* links) const {
  links->clear();
  const std::size_t top = meeting(a, b);
  climb(a, top, true, links);
  climb(b, top, false, links);
}

double Routes::capacity(const Link& link) const {
  const Level& level = cluster_.levels[static_cast<std::size_t>(link.level)];
  if (link.kind == LinkKind::kTotal) return level.total_GBps * kBytesPerPicosecond;
  const double ports = link.level == 0 ? level.ports : 1;
  return level.GBps * ports * kBytesPerPicosecond;
}

}  // namespace roda::sim

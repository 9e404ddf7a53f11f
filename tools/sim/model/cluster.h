// What travelling over a topology's levels costs: units inside units, joined by links.
//
// Level 0 joins ranks (a socket or a host), level 1 joins units of level 0, and so on; the last level joins everything.
// A unit hangs on the level above by `ports` links of `GBps` each way. A message from a to b goes up from a to the
// first level where both meet and down again to b: through every port on the way and, where a level has a total,
// through that. Its latency and overhead are those of the level where the two meet.
//
// Plain values, any thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "algorithms/topology/topology.h"

namespace roda::sim {

struct Level {
  std::string name;          // what one unit of the level is: "host", "rack", "fabric"
  std::int32_t members = 0;  // units of the level below in one unit (level 0: ranks); 0: as many as there are
  double latency_us = 0;     // one way, between members
  double overhead_us = 0;    // processor time that a message between members costs its sender, and its receiver
  double GBps = 1;           // 10^9 bytes a second, of each port of a member
  std::int32_t ports = 1;    // per member; a rank uses the one of its number on its level-0 unit, modulo ports
  bool full_duplex = true;   // false: both directions share the port
  double total_GBps = 0;     // of everything that passes one unit of this level; 0: no limit of its own
};

struct Cluster {
  std::string name;
  std::vector<Level> levels;            // inside out; at least one
  double reduce_GBps = 10;              // at which one rank adds a message to its data
  double copy_GBps = 10;                // at which one rank copies
  std::vector<std::int32_t> placement;  // ranks on each level-0 unit in order; empty: filled one after the other
};

// Why there is no room for so many ranks on it; nullopt: there is.
std::optional<std::string> why_no_room(const Cluster& cluster, std::int32_t ranks);
// Ranks placed on a cluster that has room for them. Its levels but the last, which joins everything, are the
// topology's.
Topology lay_out(const Cluster& cluster, std::int32_t ranks);

// Why the description can't be used, naming the field; nullopt: it can.
std::optional<std::string> wrong_with(const Cluster& cluster);

// JSON; docs/notes/simulator.md describes the format. nullopt: *cluster is filled in and right. Else what is wrong, and
// where.
std::optional<std::string> read_cluster(const std::string& json_text, Cluster* cluster);

enum class LinkKind : std::uint8_t { kUp, kDown, kTotal };

// A link by name: the port of a member of `level` (kUp, kDown), or all of a unit of `level` (kTotal). Half-duplex ports
// are kUp in both directions.
struct Link {
  std::int32_t level = 0;
  LinkKind kind = LinkKind::kUp;
  std::int32_t unit = 0;  // member's number among its kind, or the unit's own
  std::int32_t port = 0;

  friend auto operator<=>(const Link&, const Link&) = default;
};

// The links between the ranks of a topology. It and the cluster outlive this.
class Routes {
 public:
  // `topology` has a level for each of the cluster's but the last, and places its ranks on units of the first.
  Routes(const Cluster& cluster, const Topology& topology) : cluster_(cluster), topology_(topology) {}

  // Number of the unit of the level that the rank is in.
  std::int32_t unit(std::size_t level, std::int32_t rank) const {
    return level < topology_.levels.size() ? topology_.levels[level].units[static_cast<std::size_t>(rank)] : 0;
  }
  // The level where two different ranks meet.
  std::size_t meeting(std::int32_t a, std::int32_t b) const;
  void route(std::int32_t a, std::int32_t b, std::vector<Link>* links) const;
  double capacity(const Link& link) const;  // bytes per picosecond

 private:
  void climb(std::int32_t rank, std::size_t top, bool up, std::vector<Link>* links) const;

  const Cluster& cluster_;
  const Topology& topology_;
};

}  // namespace roda::sim

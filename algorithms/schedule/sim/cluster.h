// A cluster as the simulator sees it: units inside units, joined by links.
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

// Why the description can't be used, naming the field; nullopt: it can.
std::optional<std::string> wrong_with(const Cluster& cluster);

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

// Ranks placed on a cluster.
class Topology {
 public:
  // The cluster must be right, and have room for the ranks (why_no_room).
  Topology(const Cluster& cluster, std::int32_t ranks);

  static std::optional<std::string> why_no_room(const Cluster& cluster, std::int32_t ranks);

  std::int32_t ranks() const { return static_cast<std::int32_t>(host_.size()); }
  const Cluster& cluster() const { return cluster_; }
  std::size_t levels() const { return cluster_.levels.size(); }
  // Number of the unit of the level that the rank is in.
  std::int32_t unit(std::size_t level, std::int32_t rank) const {
    return level == 0 ? host_[static_cast<std::size_t>(rank)]
                      : host_[static_cast<std::size_t>(rank)] / hosts_per_[level];
  }
  // The level where two different ranks meet.
  std::size_t meeting(std::int32_t a, std::int32_t b) const;
  void route(std::int32_t a, std::int32_t b, std::vector<Link>* links) const;
  double capacity(const Link& link) const;  // bytes per picosecond

 private:
  void climb(std::int32_t rank, std::size_t top, bool up, std::vector<Link>* links) const;

  Cluster cluster_;
  std::vector<std::int32_t> host_;       // [rank] level-0 unit
  std::vector<std::int32_t> local_;      // [rank] number inside it
  std::vector<std::int32_t> hosts_per_;  // [level] level-0 units in one unit
};

}  // namespace roda::sim

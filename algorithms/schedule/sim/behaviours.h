// All ranks' peers and routes in flat arrays: what folding and casting look at.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "algorithms/schedule/sim/actors.h"

namespace roda::sim {

// What one rank runs, with its peers numbered in the order of their appearance.
struct Behaviour {
  std::vector<std::int32_t> peers;  // [slot] world rank
  std::vector<bool> pulls;          // [slot] something is got from it
  Actor actor;                      // ops and stages filled in; slots are not
};

Behaviour behaviour_of(const RankPrograms& programs, std::int32_t rank);

class Behaviours {
 public:
  Behaviours(const RankPrograms& programs, const Routes& routes);

  struct Peer {
    std::int32_t rank = 0;
    std::int32_t back = 0;   // the peer's slot for this rank
    std::int32_t route = 0;  // begins in hops()
    std::int32_t pull = 0;   // the way back begins here
    std::int32_t end = 0;    // of both
  };
  std::int32_t ranks() const { return static_cast<std::int32_t>(begins_.size()) - 1; }
  // Slots of a rank: peers()[begin(rank)] ... before begin(rank + 1).
  std::size_t begin(std::int32_t rank) const { return begins_[static_cast<std::size_t>(rank)]; }
  const std::vector<Peer>& peers() const { return peers_; }
  const std::vector<std::int32_t>& hops() const { return hops_; }  // numbers of links
  const std::vector<Link>& links() const { return links_; }
  std::uint64_t fingerprint(std::int32_t rank) const { return fingerprints_[static_cast<std::size_t>(rank)]; }

 private:
  void add_rank(const Behaviour& behaviour, std::int32_t rank, const Routes& routes);
  void add_route(std::int32_t from, std::int32_t to, const Routes& routes);
  void find_backs();

  std::vector<std::size_t> begins_;
  std::vector<Peer> peers_;
  std::vector<std::int32_t> hops_;
  std::vector<Link> links_;
  std::map<Link, std::int32_t> numbers_;
  std::vector<std::uint64_t> fingerprints_;  // of a rank's program, peers left out
  std::vector<Link> scratch_;
};

// Mixes a value into a hash.
constexpr std::uint64_t mix(std::uint64_t hash, std::uint64_t value) {
  std::uint64_t x = hash * 0x9e3779b97f4a7c15u + value + 0x632be59bd9b4e019u;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

}  // namespace roda::sim

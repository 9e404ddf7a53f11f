// Who runs: one actor for every rank, or for every class of ranks that behave alike.
//
// Folding. Two ranks behave alike when they do the same, with peers that behave alike, over links that are used alike.
// The coarsest such classes are found by refining colours: a rank's colour is made of its program, its peers' colours
// and those of the links on its routes; a link's of its capacity and of who sends over it. When no colour splits any
// more, the classes are balanced: all members of a class see the same at all times, so one stands for all of them.
// Nothing in that is an approximation, given that a link treats the flows that share it alike (network.h).
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "tools/sim/model/cluster.h"
#include "tools/sim/model/costs.h"

namespace roda::sim {

// One link, or a class of links.
struct LinkClass {
  Link example;
  double capacity = 0;  // bytes per picosecond, of each
  std::int64_t count = 1;
};

// A link on a route, and how many flows of the same class share one such link.
struct Hop {
  std::int32_t link = 0;
  double flows = 1;
};

// What an actor knows of one peer.
struct Slot {
  std::int32_t rank = 0;   // the peer of the actor's example
  std::int32_t actor = 0;  // that stands for it
  std::int32_t back = 0;   // the slot that the peer has for this rank
  std::int32_t level = 0;  // where the two meet
  std::vector<Hop> out;    // links to the peer
  std::vector<Hop> in;     // from the peer; only where something is got
};

struct Actor {
  std::int32_t rank = 0;   // the example
  std::int64_t count = 0;  // ranks that it stands for
  std::vector<Slot> slots;
  std::vector<std::vector<LaneCosts>> stages;  // [stage][lane]; no lanes: sits it out
  std::vector<double> shares;                  // [stage] of a piece that its group works on
};

struct Actors {
  std::vector<Actor> actors;
  std::vector<LinkClass> links;
  std::int32_t ranks = 0;
};

// Every rank for itself.
Actors every_rank(const RankCosts& programs, const Routes& routes);

// One actor for each class. nullopt: the ranks need more than `most` classes, or colours did not settle in time.
std::optional<Actors> every_class(const RankCosts& programs, const Routes& routes, std::int32_t most);

}  // namespace roda::sim

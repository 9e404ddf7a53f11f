// What it costs to form a job and its first group over tcp: counted, not simulated.
//
// Every rank has one connection to the store, where all ranks meet: it gives what all must know, and takes what came of
// it (core/bootstrap/gather.h). Leaders of hosts have one connection each to the leader above, along the tree of hosts.
// Ranks look one another up at the store, and connect, when they first send: a first operation's peers are counted in.
// Pure functions.
#pragma once

#include "tools/sim/model/control.h"

namespace roda::sim {

// Counted over all ranks together.
struct FormationCost {
  double values = 0;        // put into the store
  double requests = 0;      // to it; where ranks wait long, up to one more of each, which asks for failures
  double bytes = 0;         // through it, both ways; estimated
  double us = 0;            // of its thread, which all wait for
  double clients = 0;       // its connections
  double links = 0;         // connections between leaders
  double mails = 0;         // messages with descriptors between the ranks of a host
  std::int32_t rounds = 0;  // in which all ranks wait for all
  std::int32_t depth = 0;   // leaders that connect one after the other
};

// Hosts have `ranks_per_host` each, on machines of one kind.
FormationCost formation_cost(const ControlOptions& options);

}  // namespace roda::sim

#include "tools/sim/model/formation.h"

#include <algorithm>
#include <cmath>

namespace roda::sim {
namespace {

// Processor time of the store's thread, measured with 256 clients; of a new client, its proof of the secret.
constexpr double kRequestUs = 15, kClientUs = 100, kByteUs = 1e-3;

// Bytes, as measured in jobs of 4 to 64 ranks.
constexpr double kPiece = 64 << 10;        // of a text that is longer than an answer
constexpr double kRequest = 34;            // the key, and what goes before it
constexpr double kAnswer = 5;              // what goes before a value
constexpr double kReport = 134;            // what a rank says of its place
constexpr double kSettings = 900;          // what must be equal on all
constexpr double kTable = 400, kHost = 6;  // what all hear of ranks and hosts that are alike, and of each host besides
constexpr double kCard = 40, kVerdict = 40,
                 kAddress = 88;  // of a group over tcp: of the first for all, else of a member

double pieces(double bytes) { return std::max(1.0, std::ceil(bytes / kPiece)); }

// Each of `ranks` gives `mine` bytes and `takers` of them take `all`.
void exchange(FormationCost* cost, double ranks, double mine, double takers, double all) {
  cost->values += ranks;
  cost->requests += ranks + takers * pieces(all);
  cost->bytes += ranks * (kRequest + mine) + takers * (pieces(all) * (kRequest + kAnswer) + all);
}

// Rank 0 takes what all gave, and puts a result, which the others get.
void gather(FormationCost* cost, double ranks, double mine, double result) {
  ++cost->rounds;
  exchange(cost, ranks, mine, 1, ranks * (4 + mine));
  exchange(cost, pieces(result), result / pieces(result), ranks - 1, result);
}

}  // namespace

FormationCost formation_cost(const ControlOptions& options) {
  FormationCost cost;
  const HostTree tree = host_tree(options);
  const double ranks = options.ranks, hosts = tree.hosts;
  cost.clients = ranks;
  cost.requests = 2 * ranks;  // each comes, and leaves when the job has formed
  cost.bytes = cost.requests * kRequest;
  exchange(&cost, ranks, 40, ranks, 60);                  // a rank is claimed
  gather(&cost, ranks, 20, 8);                            // versions
  gather(&cost, ranks, kReport, kTable + hosts * kHost);  // who is where
  gather(&cost, ranks, 0, 8);                             // how all fared
  gather(&cost, ranks, kSettings, 8);                     // settings
  if (ranks > hosts) {
    const double local = ranks / hosts;
    ++cost.rounds;
    exchange(&cost, ranks, 40, ranks, local * 44);  // mailboxes of a host
    exchange(&cost, hosts, 8, ranks - hosts, 8);    // its segment's secret
    cost.mails = ranks * (local - 1);
  }
  if (hosts > 1) {
    cost.links = hosts - 1;
    cost.depth = tree.depth;
    exchange(&cost, tree.parents, 60, cost.links, 60);
  }
  gather(&cost, ranks, 0, 8);  // how all fared
  cost.rounds += 2;
  exchange(&cost, ranks, kCard, 1, ranks * kCard);
  exchange(&cost, 1, kVerdict, ranks - 1, kVerdict);
  exchange(&cost, ranks, 0, ranks, 12);
  // Whom it is to connect to, each asks for when it first has something to say, its peers in a first operation.
  const double peers = std::min(ranks - 1, std::ceil(std::log2(ranks)));
  exchange(&cost, ranks, kAddress, ranks * peers, kAddress);
  cost.us = cost.requests * kRequestUs + ranks * kClientUs + cost.bytes * kByteUs;
  return cost;
}

}  // namespace roda::sim

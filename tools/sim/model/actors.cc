#include "tools/sim/model/actors.h"

#include <algorithm>
#include <bit>
#include <map>
#include <numeric>
#include <unordered_map>
#include <utility>

#include "algorithms/index.h"

namespace roda::sim {
namespace {

std::int32_t count(const auto& list) { return static_cast<std::int32_t>(list.size()); }

// Mixes a value into a hash.
constexpr std::uint64_t mix(std::uint64_t hash, std::uint64_t value) {
  std::uint64_t x = hash * 0x9e3779b97f4a7c15u + value + 0x632be59bd9b4e019u;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

// What one rank runs, with its peers numbered in the order of their appearance.
struct Behaviour {
  std::vector<std::int32_t> peers;  // [slot] world rank
  std::vector<bool> pulls;          // [slot] something is got from it
  Actor actor;                      // stages filled in; slots are not

  Behaviour(const RankCosts& programs, std::int32_t rank) {
    actor.rank = rank;
    for (std::size_t stage = 0; stage < programs.stages(); ++stage) add_stage(programs.part(stage, rank));
  }

 private:
  void add_stage(const StagePart& part) {
    auto& lanes = actor.stages.emplace_back();
    actor.shares.push_back(part.fraction);
    if (part.program == nullptr) return;
    const auto count_of_lanes = static_cast<double>(part.program->lanes.size());
    for (const LaneCosts& lane : part.program->lanes) {
      LaneCosts& own = lanes.emplace_back();
      own.reserve(lane.size() + 2);
      add_copy(part.before / count_of_lanes, &own);
      for (const Rounds& rounds : lane) {
        for (Cost& op : own.emplace_back(rounds).ops) make_own(part, &op);
      }
      add_copy(part.after / count_of_lanes, &own);
    }
  }

  // Each lane does its part of the copies around them.
  static void add_copy(double bytes, LaneCosts* lane) {
    if (bytes > 0) lane->push_back({{{.kind = StepKind::kCopy, .bytes = bytes}}});
  }

  void make_own(const StagePart& part, Cost* op) {
    op->bytes *= part.fraction;
    if (schedule::is_local(op->kind)) return;
    const std::int32_t peer = part.peer(*op);
    op->peer = static_cast<std::int32_t>(std::ranges::find(peers, peer) - peers.begin());
    if (op->peer == count(peers)) {
      peers.push_back(peer);
      pulls.push_back(false);
    }
    if (schedule::reads_peer(op->kind)) pulls[at(op->peer)] = true;
  }
};

std::uint64_t hash_of(const Cost& op, std::uint64_t hash) {
  hash = mix(hash, static_cast<std::uint64_t>(op.kind) | static_cast<std::uint64_t>(op.signal) << 16 |
                       static_cast<std::uint64_t>(op.blocked_by) << 24 | static_cast<std::uint64_t>(op.follows) << 31 |
                       static_cast<std::uint64_t>(static_cast<std::uint32_t>(op.peer)) << 32);
  return mix(mix(hash, std::bit_cast<std::uint64_t>(op.bytes)),
             std::bit_cast<std::uint64_t>(op.encodes ? -op.wire : op.wire));
}

std::uint64_t hash_of(const Actor& actor) {
  std::uint64_t hash = 0;
  for (const double share : actor.shares) hash = mix(hash, std::bit_cast<std::uint64_t>(share));
  for (const auto& stage : actor.stages) {
    hash = mix(hash, stage.size());
    for (const auto& lane : stage) {
      hash = mix(hash, lane.size());
      for (const Rounds& rounds : lane) {
        hash = mix(mix(hash, rounds.ops.size()), static_cast<std::uint64_t>(rounds.repeat));
        for (const Cost& op : rounds.ops) hash = hash_of(op, hash);
      }
    }
  }
  return hash;
}

// All ranks' peers and routes in flat arrays: what folding and casting look at.
class Behaviours {
 public:
  Behaviours(const RankCosts& programs, const Routes& routes) {
    begins_.push_back(0);
    for (std::int32_t rank = 0; rank < programs.ranks(); ++rank) add_rank(Behaviour(programs, rank), routes);
    find_backs();
  }

  struct Peer {
    std::int32_t rank = 0;
    std::int32_t back = 0;   // the peer's slot for this rank
    std::int32_t route = 0;  // begins in hops()
    std::int32_t pull = 0;   // the way back begins here
    std::int32_t end = 0;    // of both
  };
  std::int32_t ranks() const { return count(begins_) - 1; }
  // Slots of a rank: peers()[begin(rank)] ... before begin(rank + 1).
  std::size_t begin(std::int32_t rank) const { return begins_[at(rank)]; }
  const std::vector<Peer>& peers() const { return peers_; }
  const std::vector<std::int32_t>& hops() const { return hops_; }  // numbers of links
  const std::vector<Link>& links() const { return links_; }
  const std::vector<std::uint64_t>& fingerprints() const { return fingerprints_; }

 private:
  void add_rank(const Behaviour& behaviour, const Routes& routes) {
    const std::int32_t rank = behaviour.actor.rank;
    for (std::size_t slot = 0; slot < behaviour.peers.size(); ++slot) {
      Peer peer;
      peer.rank = behaviour.peers[slot];
      peer.route = count(hops_);
      add_route(rank, peer.rank, routes);
      peer.pull = count(hops_);
      if (behaviour.pulls[slot]) add_route(peer.rank, rank, routes);
      peer.end = count(hops_);
      peers_.push_back(peer);
    }
    begins_.push_back(peers_.size());
    fingerprints_.push_back(hash_of(behaviour.actor));
  }

  void add_route(std::int32_t from, std::int32_t to, const Routes& routes) {
    routes.route(from, to, &scratch_);
    for (const Link& link : scratch_) {
      const auto [entry, added] = numbers_.emplace(link, count(links_));
      if (added) links_.push_back(link);
      hops_.push_back(entry->second);
    }
  }

  void find_backs() {
    for (std::int32_t rank = 0; rank < ranks(); ++rank) {
      for (std::size_t slot = begin(rank); slot < begin(rank + 1); ++slot) {
        const std::int32_t other = peers_[slot].rank;
        std::size_t back = begin(other);
        while (back < begin(other + 1) && peers_[back].rank != rank) ++back;
        peers_[slot].back = static_cast<std::int32_t>(back - begin(other));
      }
    }
  }

  std::vector<std::size_t> begins_;
  std::vector<Peer> peers_;
  std::vector<std::int32_t> hops_;
  std::vector<Link> links_;
  std::map<Link, std::int32_t> numbers_;
  std::vector<std::uint64_t> fingerprints_;  // of a rank's program, peers left out
  std::vector<Link> scratch_;
};

// Colours of ranks and links after `rounds` refinements; see actors.h.
class Colours {
 public:
  Colours(const Behaviours& behaviours, const Routes& routes) : behaviours_(behaviours) {
    for (const Link& link : behaviours.links()) {
      std::uint64_t colour = mix(static_cast<std::uint64_t>(link.level), static_cast<std::uint64_t>(link.kind));
      links_.push_back(mix(colour, static_cast<std::uint64_t>(routes.capacity(link) * 1e6)));
    }
    ranks_ = behaviours.fingerprints();
    count_ = distinct(ranks_) + distinct(links_);
  }

  // Until nothing splits; false when there are more than `most` colours of ranks, or too many rounds were needed.
  bool settle(std::int32_t most, int rounds) {
    for (int round = 0; round < rounds; ++round) {
      refine();
      const std::size_t classes = distinct(ranks_);
      if (classes > static_cast<std::size_t>(most)) return false;
      const std::size_t now = classes + distinct(links_);
      if (now == count_) return true;
      count_ = now;
    }
    return false;
  }

  const std::vector<std::uint64_t>& ranks() const { return ranks_; }
  const std::vector<std::uint64_t>& links() const { return links_; }

 private:
  static std::size_t distinct(std::vector<std::uint64_t> colours) {
    std::ranges::sort(colours);
    return static_cast<std::size_t>(std::unique(colours.begin(), colours.end()) - colours.begin());
  }

  void refine() {
    next_ranks_ = ranks_;
    next_links_ = links_;
    for (std::int32_t rank = 0; rank < behaviours_.ranks(); ++rank) {
      const auto number = at(rank);
      std::uint64_t colour = ranks_[number];
      for (std::size_t slot = behaviours_.begin(rank); slot < behaviours_.begin(rank + 1); ++slot) {
        const Behaviours::Peer& peer = behaviours_.peers()[slot];
        const std::uint64_t user = mix(ranks_[number], slot - behaviours_.begin(rank));
        colour = mix(colour, ranks_[at(peer.rank)]);
        colour = mix(colour, static_cast<std::uint64_t>(peer.back));
        for (std::int32_t hop = peer.route; hop < peer.end; ++hop) {
          const auto link = at(behaviours_.hops()[at(hop)]);
          colour = mix(colour, links_[link] + (hop < peer.pull ? 0 : 1));
          next_links_[link] += mix(user, static_cast<std::uint64_t>(hop < peer.pull ? 0 : 1));
        }
      }
      next_ranks_[number] = colour;
    }
    ranks_.swap(next_ranks_);
    for (std::size_t link = 0; link < links_.size(); ++link) links_[link] = mix(next_links_[link], 0);
  }

  const Behaviours& behaviours_;
  std::vector<std::uint64_t> ranks_, links_, next_ranks_, next_links_;
  std::size_t count_ = 0;
};

// Numbers equal colours alike, in their order of appearance.
std::vector<std::int32_t> classes_of(const std::vector<std::uint64_t>& colours) {
  std::unordered_map<std::uint64_t, std::int32_t> numbers;
  std::vector<std::int32_t> classes;
  for (const std::uint64_t colour : colours) classes.push_back(numbers.emplace(colour, count(numbers)).first->second);
  return classes;
}

std::vector<std::int32_t> each_alone(std::size_t count) {
  std::vector<std::int32_t> classes(count);
  std::iota(classes.begin(), classes.end(), 0);
  return classes;
}

// The ranks of a class as one actor, and the links of a class as one link.
class ActorBuilder {
 public:
  ActorBuilder(const Behaviours& behaviours, std::vector<std::int32_t> rank_class, std::vector<std::int32_t> link_class)
      : behaviours_(behaviours), rank_class_(std::move(rank_class)), link_class_(std::move(link_class)) {}

  Actors run(const RankCosts& programs, const Routes& routes) {
    actors_.ranks = behaviours_.ranks();
    for (std::size_t link = 0; link < link_class_.size(); ++link) {
      const auto number = at(link_class_[link]);
      const Link& example = behaviours_.links()[link];
      if (number == actors_.links.size()) actors_.links.push_back({example, routes.capacity(example), 0});
      ++actors_.links[number].count;
    }
    for (std::int32_t rank = 0; rank < behaviours_.ranks(); ++rank) {
      const auto number = at(rank_class_[at(rank)]);
      if (number == actors_.actors.size()) actors_.actors.push_back(Behaviour(programs, rank).actor);
      ++actors_.actors[number].count;
    }
    for (Actor& actor : actors_.actors) add_slots(routes, &actor);
    return std::move(actors_);
  }

 private:
  void add_slots(const Routes& routes, Actor* actor) const {
    for (std::size_t slot = behaviours_.begin(actor->rank); slot < behaviours_.begin(actor->rank + 1); ++slot) {
      const Behaviours::Peer& peer = behaviours_.peers()[slot];
      const auto level = static_cast<std::int32_t>(routes.meeting(actor->rank, peer.rank));
      actor->slots.push_back({peer.rank, rank_class_[at(peer.rank)], peer.back, level,
                              hops(peer.route, peer.pull, actor->count), hops(peer.pull, peer.end, actor->count)});
    }
  }

  // Every rank of the class sends one flow over as many links of the hop's class as the route names.
  std::vector<Hop> hops(std::int32_t begin, std::int32_t end, std::int64_t count) const {
    std::vector<Hop> made;
    for (std::int32_t hop = begin; hop < end; ++hop) {
      const std::int32_t link = link_class_[at(behaviours_.hops()[at(hop)])];
      const double each = static_cast<double>(count) / static_cast<double>(actors_.links[at(link)].count);
      const auto known = std::ranges::find_if(made, [&](const Hop& h) { return h.link == link; });
      if (known != made.end()) {
        known->flows += each;
      } else {
        made.push_back({link, each});
      }
    }
    return made;
  }

  const Behaviours& behaviours_;
  std::vector<std::int32_t> rank_class_;
  std::vector<std::int32_t> link_class_;
  Actors actors_;
};

// A colour travels one peer further in each round; more rounds than this mean that the ranks differ all over.
constexpr int kMostRounds = 2048;

}  // namespace

Actors every_rank(const RankCosts& programs, const Routes& routes) {
  const Behaviours behaviours(programs, routes);
  return ActorBuilder(behaviours, each_alone(at(behaviours.ranks())), each_alone(behaviours.links().size()))
      .run(programs, routes);
}

std::optional<Actors> every_class(const RankCosts& programs, const Routes& routes, std::int32_t most) {
  const Behaviours behaviours(programs, routes);
  Colours colours(behaviours, routes);
  if (!colours.settle(most, kMostRounds)) return std::nullopt;
  return ActorBuilder(behaviours, classes_of(colours.ranks()), classes_of(colours.links())).run(programs, routes);
}

}  // namespace roda::sim

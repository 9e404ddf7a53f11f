#include "algorithms/schedule/sim/behaviours.h"

#include <algorithm>
#include <bit>

namespace roda::sim {
namespace {

class BehaviourWriter {
 public:
  explicit BehaviourWriter(Behaviour* behaviour) : behaviour_(*behaviour) {}

  void add_stage(const StagePart& part) {
    auto& lanes = behaviour_.actor.stages.emplace_back();
    if (part.program == nullptr) return;
    for (const LaneProgram& lane : part.program->lanes) {
      auto& blocks = lanes.emplace_back();
      for (const Block& block : lane) {
        const auto begin = static_cast<std::int32_t>(behaviour_.actor.ops.size());
        for (const Op& op : block.ops) add_op(part, op);
        blocks.push_back({begin, static_cast<std::int32_t>(behaviour_.actor.ops.size()), block.repeat});
      }
    }
  }

 private:
  void add_op(const StagePart& part, const Op& op) {
    ActorOp& added = behaviour_.actor.ops.emplace_back(ActorOp{op, -1, op.fraction * part.fraction});
    if (op.kind == OpKind::kWork) return;
    added.slot = slot_of(part.peer(op));
    if (op.kind == OpKind::kGet) behaviour_.pulls[static_cast<std::size_t>(added.slot)] = true;
  }

  std::int32_t slot_of(std::int32_t peer) {
    const auto found = std::find(behaviour_.peers.begin(), behaviour_.peers.end(), peer);
    if (found != behaviour_.peers.end()) return static_cast<std::int32_t>(found - behaviour_.peers.begin());
    behaviour_.peers.push_back(peer);
    behaviour_.pulls.push_back(false);
    return static_cast<std::int32_t>(behaviour_.peers.size()) - 1;
  }

  Behaviour& behaviour_;
};

std::uint64_t hash_of(const Actor& actor) {
  std::uint64_t hash = 0;
  for (const ActorOp& op : actor.ops) {
    hash = mix(hash, static_cast<std::uint64_t>(op.op.kind) | static_cast<std::uint64_t>(op.op.work) << 8 |
                         static_cast<std::uint64_t>(op.op.signal) << 16 |
                         static_cast<std::uint64_t>(op.op.blocked_by) << 24 |
                         static_cast<std::uint64_t>(static_cast<std::uint32_t>(op.slot)) << 32);
    hash = mix(hash, std::bit_cast<std::uint64_t>(op.bytes));
  }
  for (const auto& stage : actor.stages) {
    hash = mix(hash, stage.size());
    for (const auto& lane : stage) {
      hash = mix(hash, lane.size());
      for (const ActorBlock& block : lane) {
        hash = mix(hash, static_cast<std::uint64_t>(block.end));
        hash = mix(hash, static_cast<std::uint64_t>(block.repeat));
      }
    }
  }
  return hash;
}

}  // namespace

Behaviour behaviour_of(const RankPrograms& programs, std::int32_t rank) {
  Behaviour behaviour;
  behaviour.actor.rank = rank;
  BehaviourWriter writer(&behaviour);
  for (std::size_t stage = 0; stage < programs.stages(); ++stage) writer.add_stage(programs.part(stage, rank));
  return behaviour;
}

Behaviours::Behaviours(const RankPrograms& programs, const Routes& routes) {
  begins_.push_back(0);
  for (std::int32_t rank = 0; rank < programs.ranks(); ++rank) add_rank(behaviour_of(programs, rank), rank, routes);
  find_backs();
}

void Behaviours::add_rank(const Behaviour& behaviour, std::int32_t rank, const Routes& routes) {
  for (std::size_t slot = 0; slot < behaviour.peers.size(); ++slot) {
    Peer peer;
    peer.rank = behaviour.peers[slot];
    peer.route = static_cast<std::int32_t>(hops_.size());
    add_route(rank, peer.rank, routes);
    peer.pull = static_cast<std::int32_t>(hops_.size());
    if (behaviour.pulls[slot]) add_route(peer.rank, rank, routes);
    peer.end = static_cast<std::int32_t>(hops_.size());
    peers_.push_back(peer);
  }
  begins_.push_back(peers_.size());
  fingerprints_.push_back(hash_of(behaviour.actor));
}

void Behaviours::add_route(std::int32_t from, std::int32_t to, const Routes& routes) {
  routes.route(from, to, &scratch_);
  for (const Link& link : scratch_) {
    const auto [entry, added] = numbers_.emplace(link, static_cast<std::int32_t>(links_.size()));
    if (added) links_.push_back(link);
    hops_.push_back(entry->second);
  }
}

void Behaviours::find_backs() {
  for (std::int32_t rank = 0; rank < ranks(); ++rank) {
    for (std::size_t slot = begin(rank); slot < begin(rank + 1); ++slot) {
      const std::int32_t other = peers_[slot].rank;
      std::size_t back = begin(other);
      while (back < begin(other + 1) && peers_[back].rank != rank) ++back;
      peers_[slot].back = static_cast<std::int32_t>(back - begin(other));
    }
  }
}

}  // namespace roda::sim

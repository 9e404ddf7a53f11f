#include "algorithms/schedule/sim/roles.h"

#include <algorithm>
#include <bit>

namespace roda::sim {
namespace {

class RoleWriter {
 public:
  explicit RoleWriter(Role* role) : role_(*role) {}

  void add_stage(const Playing& playing) {
    auto& lanes = role_.actor.stages.emplace_back();
    if (playing.program == nullptr) return;
    for (const LaneProgram& lane : playing.program->lanes) {
      auto& blocks = lanes.emplace_back();
      for (const Block& block : lane) {
        const auto begin = static_cast<std::int32_t>(role_.actor.ops.size());
        for (const Op& op : block.ops) add_op(playing, op);
        blocks.push_back({begin, static_cast<std::int32_t>(role_.actor.ops.size()), block.repeat});
      }
    }
  }

 private:
  void add_op(const Playing& playing, const Op& op) {
    ActorOp& added = role_.actor.ops.emplace_back(ActorOp{op, -1, op.fraction * playing.fraction});
    if (op.kind == OpKind::kWork) return;
    added.slot = slot_of(playing.peer(op));
    if (op.kind == OpKind::kGet) role_.pulls[static_cast<std::size_t>(added.slot)] = true;
  }

  std::int32_t slot_of(std::int32_t peer) {
    const auto found = std::find(role_.peers.begin(), role_.peers.end(), peer);
    if (found != role_.peers.end()) return static_cast<std::int32_t>(found - role_.peers.begin());
    role_.peers.push_back(peer);
    role_.pulls.push_back(false);
    return static_cast<std::int32_t>(role_.peers.size()) - 1;
  }

  Role& role_;
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

Role role_of(const Score& score, std::int32_t rank) {
  Role role;
  role.actor.rank = rank;
  RoleWriter writer(&role);
  for (std::size_t stage = 0; stage < score.stages(); ++stage) writer.add_stage(score.playing(stage, rank));
  return role;
}

Roles::Roles(const Score& score, const Topology& topology) {
  begins_.push_back(0);
  for (std::int32_t rank = 0; rank < score.ranks(); ++rank) add_rank(role_of(score, rank), rank, topology);
  find_backs();
}

void Roles::add_rank(const Role& role, std::int32_t rank, const Topology& topology) {
  for (std::size_t slot = 0; slot < role.peers.size(); ++slot) {
    Peer peer;
    peer.rank = role.peers[slot];
    peer.route = static_cast<std::int32_t>(hops_.size());
    add_route(rank, peer.rank, topology);
    peer.pull = static_cast<std::int32_t>(hops_.size());
    if (role.pulls[slot]) add_route(peer.rank, rank, topology);
    peer.end = static_cast<std::int32_t>(hops_.size());
    peers_.push_back(peer);
  }
  begins_.push_back(peers_.size());
  fingerprints_.push_back(hash_of(role.actor));
}

void Roles::add_route(std::int32_t from, std::int32_t to, const Topology& topology) {
  topology.route(from, to, &scratch_);
  for (const Link& link : scratch_) {
    const auto [entry, added] = numbers_.emplace(link, static_cast<std::int32_t>(links_.size()));
    if (added) links_.push_back(link);
    hops_.push_back(entry->second);
  }
}

void Roles::find_backs() {
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

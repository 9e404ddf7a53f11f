#include <utility>

#include "algorithms/index.h"
#include "algorithms/schedule/compiler.h"
#include "algorithms/schedule/traffic.h"

namespace roda::schedule {

namespace {

// All ranks' programs on their way side by side.
class Game {
 public:
  Game(const std::vector<Program>& ranks, std::optional<int> only, std::vector<Touches>* out)
      : ranks_(ranks), only_(only), out_(*out), traffic_(static_cast<int>(ranks.size()), most_lanes(ranks)) {
    out_.assign(ranks.size(), Touches());
    next_.resize(ranks.size());
    for (std::size_t r = 0; r < ranks.size(); ++r) {
      next_[r].resize(ranks[r].lanes.size());
      if (is_wanted(r)) prepare(ranks[r], &out_[r]);
    }
  }

  bool run() {
    bool ended = true;
    for (bool moved = true; moved;) {
      moved = false;
      ended = true;
      for (std::size_t r = 0; r < ranks_.size(); ++r) {
        for (std::size_t lane = 0; lane < next_[r].size(); ++lane) {
          moved |= run_lane(r, lane);
          ended &= next_[r][lane] == ranks_[r].lanes[lane].ops.size();
        }
      }
    }
    return ended;
  }

 private:
  bool is_wanted(std::size_t rank) const { return !only_ || at(*only_) == rank; }

  static void prepare(const Program& program, Touches* touches) {
    for (const LaneProgram& lane : program.lanes) touches->times.emplace_back(lane.ops.size());
    for (const Space space : {Space::kInput, Space::kOutput}) {
      const std::size_t chunks = at(chunks_of(program.collective, space, program.chunks, program.size));
      const std::size_t s = space == Space::kOutput ? 1 : 0;
      touches->first[s].resize(chunks);
      touches->last[s].resize(chunks);
      touches->readers[s].assign(chunks, kNobody);
    }
    touches->read_by.resize(at(program.size));
    touches->reads_from.resize(at(program.size));
  }

  // Runs the lane until it must wait. True when it moved.
  bool run_lane(std::size_t r, std::size_t lane) {
    const std::vector<Op>& ops = ranks_[r].lanes[lane].ops;
    const std::size_t before = next_[r][lane];
    for (std::size_t& next = next_[r][lane]; next < ops.size(); ++next) {
      const Op& op = ops[next];
      if (!traffic_.ready(static_cast<int>(r), static_cast<int>(lane), op)) break;
      traffic_.pass(static_cast<int>(r), static_cast<int>(lane), op);
      if (op.kind == OpKind::kPut) touch(r, op.peer, op.dst, false);
      for (const Source& source : ranks_[r].sources_of(op)) {
        if (source.peer >= 0) touch(r, source.peer, source.operand, true);
      }
      if (is_wanted(r)) out_[r].times[lane][next] = ++time_;
    }
    return next_[r][lane] != before;
  }

  // The chunks of the owner's window are touched by rank r.
  void touch(std::size_t r, std::int32_t owner, const Operand& chunks, bool is_read) {
    ++time_;
    if (is_wanted(r) && is_read) out_[r].reads_from[at(owner)] = true;
    if (!is_wanted(at(owner))) return;
    Touches& touches = out_[at(owner)];
    const std::size_t s = chunks.space == Space::kOutput ? 1 : 0;
    for (std::size_t c = at(chunks.first); c < at(chunks.first + chunks.count); ++c) {
      if (touches.first[s][c] == 0) touches.first[s][c] = time_;
      touches.last[s][c] = time_;
      std::int32_t& reader = touches.readers[s][c];
      const auto rank = static_cast<std::int32_t>(r);
      if (is_read) reader = reader == kNobody || reader == rank ? rank : kAllPeers;
    }
    if (is_read) touches.read_by[r] = true;
  }

  const std::vector<Program>& ranks_;
  std::optional<int> only_;
  std::vector<Touches>& out_;
  std::vector<std::vector<std::size_t>> next_;  // [rank][lane]
  Traffic traffic_;
  std::uint64_t time_ = 0;
};

}  // namespace

bool find_touches(const std::vector<Program>& ranks, std::optional<int> only, std::vector<Touches>* touches) {
  return Game(ranks, only, touches).run();
}

}  // namespace roda::schedule

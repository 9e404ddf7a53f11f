#include "algorithms/plan/flatten.h"

#include <algorithm>
#include <numeric>

#include "algorithms/plan/routes.h"
#include "algorithms/schedule/build.h"

namespace roda::plan {

using schedule::Algorithm;
using schedule::Collective;
using schedule::Range;
using schedule::Schedule;
using schedule::Space;
using schedule::Step;
using schedule::StepKind;

namespace {

std::size_t at(std::int32_t i) { return static_cast<std::size_t>(i); }

// One rank's stage, and where its chunks lie in the whole schedule's units.
class StageMap {
 public:
  // `units`: chunks of the whole schedule; `scratch_row`: the first row of `units` scratch chunks that is the stage's.
  StageMap(const Part& part, Collective collective, std::int32_t chunks, std::int32_t units, std::int32_t scratch_row)
      : collective_(collective), chunks_(chunks), units_(units), scratch_row_(scratch_row) {
    const auto length = static_cast<std::int32_t>(units / part.parts);
    begin_ = static_cast<std::int32_t>(part.part) * length;
    shares_ = collective == Collective::kAllreduce ? chunks : part.shares;
    share_ = length / shares_;
  }

  // `owner`: member of the group whose memory it is. False when a range of scratch spans two rows.
  bool map(const Range& range, std::int32_t owner, Range* out) const {
    if (range.count == 0) {
      *out = range;
      return true;
    }
    const bool scattered = collective_ == Collective::kReduceScatter && range.space == Space::kOutput;
    std::int32_t first = scattered ? owner : range.first;
    std::int32_t offset = 0;
    if (range.space == Space::kScratch) {
      if (range.first / chunks_ != (range.first + range.count - 1) / chunks_) return false;
      offset = (scratch_row_ + range.first / chunks_) * units_;
      first = range.first % chunks_;
    }
    out->space = range.space == Space::kScratch ? Space::kScratch : Space::kOutput;
    out->first = offset + unit(first);
    out->count = offset + unit(first + range.count) - out->first;
    return true;
  }

 private:
  std::int32_t unit(std::int32_t chunk) const { return begin_ + std::min(chunk, shares_) * share_; }

  Collective collective_;
  std::int32_t chunks_;
  std::int32_t units_;
  std::int32_t scratch_row_;
  std::int32_t begin_ = 0;
  std::int32_t shares_ = 1;
  std::int32_t share_ = 0;
};

bool is_local(StepKind kind) { return kind == StepKind::kCopy || kind == StepKind::kReduce; }
bool reads_peer(StepKind kind) { return kind == StepKind::kGet || kind == StepKind::kGetReduce; }

class Flattener {
 public:
  Flattener(const Plan& plan, const Grid& grid) : plan_(plan), grid_(grid), parts_(plan, grid) {}

  std::optional<std::string> run(std::vector<Schedule>* ranks) {
    if (auto wrong = find_algorithms()) return wrong;
    count_units();
    for (std::int32_t rank = 0; rank < grid_.ranks(); ++rank) {
      ranks->push_back(
          schedule::begin(plan_.name.c_str(), plan_.collective, rank, grid_.ranks(), static_cast<int>(units_)));
      std::int32_t rows = 0;
      for (std::size_t stage = 0; stage < plan_.stages.size(); ++stage) {
        if (!append(stage, rank, &rows, &ranks->back())) {
          return "stage " + std::to_string(stage) + ": " + plan_.stages[stage].algorithm + " can't be composed";
        }
      }
      ranks->back().scratch_chunks = rows * static_cast<std::int32_t>(units_);
    }
    return std::nullopt;
  }

 private:
  std::optional<std::string> find_algorithms() {
    for (std::size_t s = 0; s < plan_.stages.size(); ++s) {
      const Stage& stage = plan_.stages[s];
      algorithms_.push_back(schedule::find_algorithm(stage.collective, stage.algorithm));
      const std::string name = std::string(schedule::collective_name(stage.collective)) + "/" + stage.algorithm;
      if (algorithms_.back() == nullptr) return "stage " + std::to_string(s) + ": there is no algorithm " + name;
      if (!algorithms_.back()->make(0, 2, 0).in_place) {
        return "stage " + std::to_string(s) + ": " + name + " works out of place";
      }
      if (algorithms_.back()->make(0, 2, 0).scratch_is_own) {
        return "stage " + std::to_string(s) + ": " + name + " has scratch memory of another kind";
      }
    }
    return std::nullopt;
  }

  // Every stage's chunks are whole numbers of units.
  void count_units() {
    std::int64_t parts = 1;
    std::int64_t chunks = 1;
    for (std::size_t stage = 0; stage < plan_.stages.size(); ++stage) {
      for (std::int32_t rank = 0; rank < grid_.ranks(); ++rank) {
        const Part part = parts_.of(stage, rank);
        if (part.members.empty()) continue;
        parts = std::max(parts, part.parts * part.shares);
        if (plan_.stages[stage].collective != Collective::kAllreduce || part.index != 0) continue;
        const auto size = static_cast<int>(part.members.size());
        chunks = std::lcm(chunks, static_cast<std::int64_t>(algorithms_[stage]->make(0, size, 0).chunks));
      }
    }
    units_ = parts * chunks;
  }

  bool append(std::size_t stage, std::int32_t rank, std::int32_t* rows, Schedule* out) const {
    const Part part = parts_.of(stage, rank);
    if (part.members.empty()) return true;
    const Schedule own = algorithms_[stage]->make(part.index, static_cast<int>(part.members.size()), 0);
    const StageMap map(part, own.collective, own.chunks, static_cast<std::int32_t>(units_), *rows);
    for (const schedule::Lane& lane : own.lanes) {
      for (const Step& step : lane.steps) {
        for (const Step& each : expand(step, part)) {
          Step mapped;
          if (!translate(each, part, map, &mapped)) return false;
          if (keeps(each, mapped)) out->lanes[0].steps.push_back(mapped);
        }
      }
    }
    *rows += (own.scratch_chunks + own.chunks - 1) / own.chunks;
    return true;
  }

  // "All peers" are the group's, not the world's.
  static std::vector<Step> expand(const Step& step, const Part& part) {
    if (is_local(step.kind) || step.peer != schedule::kAllPeers) return {step};
    std::vector<Step> each;
    for (std::int32_t peer = 0; at(peer) < part.members.size(); ++peer) {
      if (peer == part.index) continue;
      each.push_back(step);
      each.back().peer = peer;
    }
    return each;
  }

  static bool translate(const Step& step, const Part& part, const StageMap& map, Step* out) {
    *out = step;
    const std::int32_t src_owner = reads_peer(step.kind) ? step.peer : part.index;
    const std::int32_t dst_owner = step.kind == StepKind::kPut ? step.peer : part.index;
    if (!is_local(step.kind)) out->peer = part.members[at(step.peer)];
    return map.map(step.src, src_owner, &out->src) && map.map(step.dst, dst_owner, &out->dst);
  }

  // Chunks that the grid makes empty are not sent; what is copied onto itself is there already.
  static bool keeps(const Step& step, const Step& mapped) {
    const bool had_data = step.src.count > 0 || step.dst.count > 0;
    if (had_data && mapped.src.count == 0 && mapped.dst.count == 0) return false;
    return !(step.kind == StepKind::kCopy && mapped.src == mapped.dst);
  }

  const Plan& plan_;
  const Grid& grid_;
  Parts parts_;
  std::vector<const Algorithm*> algorithms_;
  std::int64_t units_ = 1;
};

}  // namespace

std::optional<std::string> flatten(const Plan& plan, const Grid& grid, std::vector<Schedule>* ranks) {
  ranks->clear();
  if (auto wrong = wrong_with(plan, grid)) return wrong;
  return Flattener(plan, grid).run(ranks);
}

namespace {

std::string rank_text(std::int32_t rank) { return "rank " + std::to_string(rank); }

// Takes the root's data through the stages: who sends must have it, and who receives must not.
std::optional<std::string> wrong_broadcast(const Plan& plan, const Grid& grid, std::int32_t root) {
  const Parts parts(plan, grid, root);
  std::vector<bool> has(at(grid.ranks()));
  has[at(root)] = true;
  for (std::size_t stage = 0; stage < plan.stages.size(); ++stage) {
    std::vector<bool> next = has;
    const std::string place = "root " + std::to_string(root) + ", stage " + std::to_string(stage) + ": ";
    for (std::int32_t rank = 0; rank < grid.ranks(); ++rank) {
      const Part part = parts.of(stage, rank);
      if (part.members.size() < 2) continue;
      const std::int32_t sender = part.members[at(part.root)];
      if (!has[at(sender)]) return place + rank_text(sender) + " has nothing to send";
      if (rank != sender && has[at(rank)]) return place + rank_text(rank) + " has the data already";
      next[at(rank)] = true;
    }
    has = std::move(next);
  }
  const auto missing = std::find(has.begin(), has.end(), false);
  if (missing == has.end()) return std::nullopt;
  return "root " + std::to_string(root) + ": " + rank_text(static_cast<std::int32_t>(missing - has.begin())) +
         " does not get the data";
}

std::optional<std::string> wrong_data(const Plan& plan, const Grid& grid) {
  if (plan.collective != Collective::kBroadcast) return follow(plan, grid, nullptr);
  for (std::int32_t root = 0; root < grid.ranks(); ++root) {
    if (auto wrong = wrong_broadcast(plan, grid, root)) return wrong;
  }
  return std::nullopt;
}

}  // namespace

std::optional<schedule::Violation> verify(const Plan& plan, const Grid& grid) {
  std::optional<std::string> wrong = wrong_with(plan, grid);
  std::vector<Schedule> ranks;
  if (!wrong && plan.collective != Collective::kAllreduce) {
    wrong = wrong_data(plan, grid);
    if (!wrong) return std::nullopt;
  }
  if (!wrong) wrong = Flattener(plan, grid).run(&ranks);
  if (wrong) return schedule::Violation{plan.name, 0, -1, -1, *wrong};
  return schedule::verify(ranks);
}

}  // namespace roda::plan

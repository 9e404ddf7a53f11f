#include "algorithms/schedule/sim/score.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "algorithms/plan/routes.h"

namespace roda::sim {

using schedule::Algorithm;
using schedule::Schedule;

namespace {

// Schedules longer than this are not made for every rank.
constexpr std::int64_t kLongSchedule = 1 << 11;
// Steps that differ from each other, of every one of 100,000 ranks: more would not fit.
constexpr std::size_t kMostDistinctSteps = 1 << 10;
// Ranks of which it is looked whether they do what rank 0 does, turned around the circle.
constexpr std::int32_t kSamples = 3;

std::int64_t steps_in(const Schedule& schedule) {
  std::int64_t steps = 0;
  for (const schedule::Lane& lane : schedule.lanes) steps += static_cast<std::int64_t>(lane.steps.size());
  return steps;
}

}  // namespace

Score::Score(const plan::Plan& plan, const plan::Grid& grid, std::int32_t root, bool each_rank)
    : ranks_(grid.ranks()), stages_(plan.stages) {
  if (plan::has_routes(plan)) {
    follow(plan, grid);
  } else {
    parts_ = std::make_unique<plan::Parts>(plan, grid, root);
  }
  make_all(each_rank);
}

void Score::follow(const plan::Plan& plan, const plan::Grid& grid) {
  routes_.assign(stages_.size(), std::vector<Route>(grid.places.size()));
  wrong_ = plan::follow(plan, grid, [this](std::size_t stage, std::int32_t rank, plan::Route&& route) {
    const auto size = static_cast<std::int32_t>(route.members.size());
    routes_[stage][static_cast<std::size_t>(rank)] = {std::move(route.members), route.index, size, route.fraction};
  });
}

plan::Part Score::part_of(std::size_t stage, std::int32_t rank) const {
  if (parts_ != nullptr) return parts_->of(stage, rank);
  if (routes_.empty()) return {everybody_, rank, 0, 1, ranks_, 0};
  const Route& route = routes_[stage][static_cast<std::size_t>(rank)];
  return {route.members, route.index, 0, 1, route.shares, 0};
}

Score::Score(std::vector<Schedule> ranks) : ranks_(static_cast<std::int32_t>(ranks.size())) {
  stages_.push_back({ranks.front().collective, ranks.front().algorithm, 0});
  everybody_.resize(ranks.size());
  std::iota(everybody_.begin(), everybody_.end(), 0);
  for (const Schedule& schedule : ranks) {
    programs_.emplace(Key{0, schedule.rank, ranks_, ranks_, 0}, program_of(schedule, ranks_, false));
  }
}

void Score::make_all(bool each_rank) {
  for (std::size_t stage = 0; stage < stages_.size() && !wrong_; ++stage) {
    for (std::int32_t rank = 0; rank < ranks_ && !wrong_; ++rank) {
      const plan::Part part = part_of(stage, rank);
      if (!part.members.empty()) make(stage, part, each_rank);
    }
  }
}

void Score::make(std::size_t stage, const plan::Part& part, bool each_rank) {
  const auto size = static_cast<std::int32_t>(part.members.size());
  const Key all{stage, -1, size, part.shares, part.root};
  const Key own{stage, part.index, size, part.shares, part.root};
  if (programs_.count(all) != 0 || programs_.count(own) != 0) return;
  const Algorithm* algorithm = schedule::find_algorithm(stages_[stage].collective, stages_[stage].algorithm);
  if (algorithm == nullptr) {
    wrong_ = std::string("there is no algorithm ") + schedule::collective_name(stages_[stage].collective) + "/" +
             stages_[stage].algorithm;
    return;
  }
  const Schedule schedule = algorithm->make(part.index, size, part.root);
  if (!each_rank && steps_in(schedule) > kLongSchedule) {
    if (make_relative(*algorithm, all)) return;
    wrong_ = "too large: " + std::string(schedule::collective_name(algorithm->collective)) + "/" + algorithm->name +
             " of " + std::to_string(size) + " ranks has " + std::to_string(steps_in(schedule)) +
             " steps on each that do not repeat: " + std::to_string(steps_in(schedule) * size) + " in all";
    return;
  }
  programs_.emplace(own, program_of(schedule, part.shares, false));
}

// Whole shares only: with empty chunks the circle has a seam.
bool Score::make_relative(const Algorithm& algorithm, const Key& key) {
  const auto [stage, index, size, shares, root] = key;
  const bool per_rank = algorithm.collective == schedule::Collective::kReduceScatter ||
                        algorithm.collective == schedule::Collective::kAllgather;
  if (algorithm.collective == schedule::Collective::kBroadcast || (per_rank && shares != size)) return false;
  Program first = program_of(algorithm.make(0, size, 0), shares, true);
  std::size_t distinct = 0;
  for (const LaneProgram& lane : first.lanes) {
    for (const Block& block : lane) distinct += block.ops.size();
  }
  if (distinct > kMostDistinctSteps) return false;
  for (std::int32_t sample = 1; sample <= kSamples; ++sample) {
    const auto rank = static_cast<std::int32_t>(static_cast<std::int64_t>(size - 1) * sample / kSamples);
    if (program_of(algorithm.make(rank, size, 0), shares, true) != first) return false;
  }
  programs_.emplace(key, std::move(first));
  return true;
}

Playing Score::playing(std::size_t stage, std::int32_t rank) const {
  Playing playing;
  playing.part = part_of(stage, rank);
  if (!routes_.empty()) playing.of_blocks = routes_[stage][static_cast<std::size_t>(rank)].fraction;
  if (playing.part.members.empty()) return playing;
  const auto size = static_cast<std::int32_t>(playing.part.members.size());
  const auto program = [&](std::int32_t index) {
    return programs_.find({stage, index, size, playing.part.shares, playing.part.root});
  };
  auto found = program(-1);
  if (found == programs_.end()) found = program(playing.part.index);
  if (found != programs_.end()) playing.program = &found->second;
  return playing;
}

}  // namespace roda::sim

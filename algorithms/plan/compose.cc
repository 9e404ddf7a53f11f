#include "algorithms/plan/compose.h"

#include <algorithm>

namespace roda::plan {

using schedule::Collective;

namespace {

// The last choice serves the axes beyond.
Choice choice_of(const std::vector<Choice>& choices, std::int32_t axis) {
  return choices.empty() ? Choice{} : choices[std::min(static_cast<std::size_t>(axis), choices.size() - 1)];
}

// Axes along which some group has several ranks, or which are wanted all the same, innermost first.
std::vector<std::int32_t> axes_in_use(const Grid& grid, const std::vector<Choice>& choices) {
  std::vector<std::int32_t> axes;
  for (std::int32_t axis = 0; axis <= grid.last_axis(); ++axis) {
    if (!grid.is_lonely(axis) || choice_of(choices, axis).even_alone) axes.push_back(axis);
  }
  return axes;
}

// Adds stages of blocks that travel outwards along all axes but the last, and back along those that are uneven.
class Composer {
 public:
  Composer(const Grid& grid, const std::vector<Choice>& choices)
      : in_use_(axes_in_use(grid, choices)), choices_(choices) {
    Shares shares(grid);
    for (const std::int32_t axis : in_use_) {
      const bool folds = axis != in_use_.back() && !shares.is_even(axis);
      folds_.push_back(folds);
      if (folds) shares.open(axis);
    }
  }

  void add_outwards(Collective collective, bool only_uneven, Plan* plan) const {
    for (std::size_t i = 0; i < in_use_.size(); ++i) {
      if (!only_uneven || folds_[i]) add(collective, in_use_[i], plan);
    }
  }

  void add_inwards(Collective collective, bool only_uneven, Plan* plan) const {
    for (std::size_t i = in_use_.size(); i-- > 0;) {
      if (!only_uneven || folds_[i]) add(collective, in_use_[i], plan);
    }
  }

 private:
  void add(Collective collective, std::int32_t axis, Plan* plan) const {
    const Choice choice = choice_of(choices_, axis);
    const std::string& algorithm = collective == Collective::kAlltoall        ? choice.alltoall
                                   : collective == Collective::kReduceScatter ? choice.reduce_scatter
                                   : collective == Collective::kBroadcast     ? choice.broadcast
                                   : collective == Collective::kReduce        ? choice.reduce
                                                                              : choice.allgather;
    plan->stages.push_back({collective, algorithm, axis});
  }

  std::vector<std::int32_t> in_use_;
  std::vector<bool> folds_;  // [in use] the members that a smaller group lacks don't go on to other axes
  const std::vector<Choice>& choices_;
};

}  // namespace

Plan reduce_along_each_axis(const std::string& name, const Grid& grid, const std::vector<Choice>& choices) {
  Plan plan{name, Collective::kAllreduce, {}};
  for (const std::int32_t axis : axes_in_use(grid, choices)) {
    plan.stages.push_back({Collective::kAllreduce, choice_of(choices, axis).allreduce, axis});
  }
  return plan;
}

Plan hierarchical(Collective collective, const Grid& grid, const std::vector<Choice>& choices) {
  if (collective == Collective::kAllreduce || collective == Collective::kAdasum) {
    return scatter_reduce_gather("hierarchical", grid, choices, collective);
  }
  Plan plan{"hierarchical", collective, {}};
  const Composer composer(grid, choices);
  if (collective == Collective::kAllgather) composer.add_outwards(Collective::kAlltoall, true, &plan);
  if (collective == Collective::kAllgather || collective == Collective::kBroadcast) {
    composer.add_inwards(collective, false, &plan);
  } else {
    composer.add_outwards(collective, false, &plan);
    if (!schedule::is_cut(collective)) composer.add_inwards(Collective::kAlltoall, true, &plan);
  }
  return plan;
}

Plan scatter_reduce_gather(const std::string& name, const Grid& grid, const std::vector<Choice>& choices,
                           Collective collective) {
  Plan plan{name, collective, {}};
  std::vector<std::int32_t> axes = axes_in_use(grid, choices);
  if (axes.empty()) return plan;
  const std::int32_t last = axes.back();
  axes.pop_back();
  for (const std::int32_t axis : axes) {
    plan.stages.push_back({Collective::kReduceScatter, choice_of(choices, axis).reduce_scatter, axis});
  }
  const Choice middle = choice_of(choices, last);
  plan.stages.push_back({collective, collective == Collective::kAdasum ? middle.adasum : middle.allreduce, last});
  for (auto axis = axes.rbegin(); axis != axes.rend(); ++axis) {
    plan.stages.push_back({Collective::kAllgather, choice_of(choices, *axis).allgather, *axis});
  }
  return plan;
}

}  // namespace roda::plan

// Compiler: the way of every block through a plan of allgather, reduce-scatter or alltoall.

#include <algorithm>
#include <utility>

#include "algorithms/index.h"
#include "algorithms/plan/compile.h"

namespace roda::plan {

using schedule::Block;
using schedule::Collective;

namespace {

class Follower {
 public:
  Follower(const Plan& plan, const Grid& grid, std::optional<std::int32_t> only,
           std::vector<std::vector<Route>>* routes)
      : plan_(plan), grid_(grid), shares_(grid), only_(only), kept_(*routes) {
    kept_.assign(at(grid.ranks()), {});
    for (std::int32_t rank = 0; rank < grid.ranks(); ++rank) {
      held_.push_back(input_blocks(schedule_of(rank)));
      summed_.emplace_back(at(grid.ranks()));
      summed_.back()[at(rank)] = true;
    }
  }

  // nullopt: every block ends where it must, once, and every sum has each rank's contribution once. Else what is wrong,
  // with the stage.
  std::optional<std::string> run() {
    for (stage_ = 0; stage_ < plan_.stages.size(); ++stage_) {
      enter();
      for (const auto& group : grid_.groups(stage().axis)) {
        if (auto wrong = pass(group)) return "stage " + std::to_string(stage_) + ": " + *wrong;
      }
      leave();
    }
    return wrong_end();
  }

 private:
  const Stage& stage() const { return plan_.stages[stage_]; }
  bool is_combined() const { return schedule::is(stage().collective, RODA_COMBINES); }

  // Whose chunks are the blocks that a rank begins and ends with.
  schedule::Schedule schedule_of(std::int32_t rank) const {
    schedule::Schedule made;
    made.collective = plan_.collective;
    made.rank = rank;
    made.size = made.chunks = grid_.ranks();
    made.in_place = false;
    return made;
  }

  // Does a later stage take the blocks on along the same axis?
  bool comes_back() const {
    return std::any_of(plan_.stages.begin() + static_cast<std::ptrdiff_t>(stage_) + 1, plan_.stages.end(),
                       [&](const Stage& later) { return later.axis == stage().axis; });
  }

  // Opens or closes the stage's axis, and says how many members of a group blocks go to.
  void enter() {
    const bool closes = shares_.close(stage().axis);
    opens_ = !closes && comes_back();
    targets_ = opens_ ? shares_.smallest_group(stage().axis) : INT32_MAX;
  }

  void leave() {
    if (opens_) shares_.open(stage().axis);
  }

  // One group's stage.
  std::optional<std::string> pass(const schedule::Members& members) {
    const std::vector<std::int32_t>& group = *members;
    const bool takes_part = grid_.has_work(stage().axis, members) && shares_.has_one(group.front());
    if (takes_part) {
      std::vector<Route> routes(group.size());
      for (std::size_t i = 0; i < group.size(); ++i) {
        routes[i].members = members;
        routes[i].index = static_cast<std::int32_t>(i);
      }
      if (auto wrong = fill(group, routes)) return wrong;
      finish(group, routes);
    } else {
      for (const std::int32_t rank : group) keep(rank, Route());
    }
    return std::nullopt;
  }

  std::optional<std::string> fill(const std::vector<std::int32_t>& group, std::vector<Route>& routes) {
    if (schedule::entry_of(stage().collective).input == RODA_OWN_PART) {
      gather(group, routes);
      return std::nullopt;
    }
    for (std::size_t i = 0; i < group.size(); ++i) {
      if (auto wrong = sort_out(group, group[i], &routes[i])) return wrong;
    }
    if (is_combined()) return reduce(group, routes);
    hand_over(group, routes);
    return std::nullopt;
  }

  void gather(const std::vector<std::int32_t>& group, std::vector<Route>& routes) const {
    Route whole;
    for (const std::int32_t rank : group) {
      const auto& blocks = held_[at(rank)];
      whole.out.insert(whole.out.end(), blocks.begin(), blocks.end());
      whole.out_ends.push_back(static_cast<std::int32_t>(whole.out.size()));
      whole.most_blocks = std::max(whole.most_blocks, static_cast<std::int32_t>(blocks.size()));
    }
    for (std::size_t i = 0; i < group.size(); ++i) {
      routes[i].in = held_[at(group[i])];
      routes[i].out = whole.out;
      routes[i].out_ends = whole.out_ends;
      routes[i].most_blocks = whole.most_blocks;
    }
  }

  // Which member a block goes to: by the place of the rank that it is for; handed over by an allgather, that it is of.
  std::int32_t target(const Block& block) const {
    const std::int32_t rank = block.to < 0 ? block.from : block.to;
    return grid_.place(rank, stage().axis) % targets_;
  }

  std::optional<std::string> sort_out(const std::vector<std::int32_t>& group, std::int32_t rank, Route* route) const {
    std::vector<std::vector<Block>> to(group.size());
    for (const Block& block : held_[at(rank)]) {
      const std::int32_t member = target(block);
      if (at(member) >= group.size()) {
        return "rank " + std::to_string(rank) + " has a block for member " + std::to_string(member) + " of " +
               std::to_string(group.size());
      }
      to[at(member)].push_back(block);
    }
    for (auto& blocks : to) {
      if (is_combined()) std::sort(blocks.begin(), blocks.end());
      route->in.insert(route->in.end(), blocks.begin(), blocks.end());
      route->in_ends.push_back(static_cast<std::int32_t>(route->in.size()));
      route->most_blocks = std::max(route->most_blocks, static_cast<std::int32_t>(blocks.size()));
    }
    return std::nullopt;
  }

  static std::pair<std::ptrdiff_t, std::ptrdiff_t> range(const std::vector<std::int32_t>& ends, std::size_t member) {
    return {member == 0 ? 0 : ends[member - 1], ends[member]};
  }

  void hand_over(const std::vector<std::int32_t>& group, std::vector<Route>& routes) {
    std::int32_t most = 0;
    for (const Route& route : routes) most = std::max(most, route.most_blocks);
    std::vector<std::vector<bool>> sums(routes.size(), std::vector<bool>(held_.size(), true));
    for (std::size_t to = 0; to < routes.size(); ++to) {
      for (std::size_t from = 0; from < routes.size(); ++from) {
        const auto [begin, end] = range(routes[from].in_ends, to);
        const auto first = routes[from].in.begin();
        routes[to].out.insert(routes[to].out.end(), first + begin, first + end);
        routes[to].out_ends.push_back(static_cast<std::int32_t>(routes[to].out.size()));
        if (begin != end) keep_common(summed_[at(group[from])], &sums[to]);
      }
      routes[to].most_blocks = most;
    }
    for (std::size_t i = 0; i < routes.size(); ++i) summed_[at(group[i])] = std::move(sums[i]);
  }

  static void keep_common(const std::vector<bool>& of, std::vector<bool>* sum) {
    for (std::size_t rank = 0; rank < of.size(); ++rank) (*sum)[rank] = (*sum)[rank] && of[rank];
  }

  std::optional<std::string> reduce(const std::vector<std::int32_t>& group, std::vector<Route>& routes) {
    std::vector<bool> sum(held_.size());
    for (std::size_t i = 0; i < group.size(); ++i) {
      if (routes[i].in != routes[0].in) {
        return "ranks " + std::to_string(group[0]) + " and " + std::to_string(group[i]) + " hold different blocks";
      }
      const auto& of = summed_[at(group[i])];
      for (std::size_t rank = 0; rank < of.size(); ++rank) {
        if (of[rank] && sum[rank]) return "the contribution of rank " + std::to_string(rank) + " counts twice";
        sum[rank] = sum[rank] || of[rank];
      }
    }
    for (std::size_t i = 0; i < group.size(); ++i) {
      const auto [begin, end] = range(routes[i].in_ends, i);
      routes[i].out.assign(routes[i].in.begin() + begin, routes[i].in.begin() + end);
      summed_[at(group[i])] = sum;
    }
    return std::nullopt;
  }

  void finish(const std::vector<std::int32_t>& group, std::vector<Route>& routes) {
    for (std::size_t i = 0; i < group.size(); ++i) {
      held_[at(group[i])] = routes[i].out;
      keep(group[i], std::move(routes[i]));
    }
  }

  void keep(std::int32_t rank, Route&& route) {
    if (!only_ || rank == *only_) kept_[at(rank)].push_back(std::move(route));
  }

  std::optional<std::string> wrong_end() const {
    for (std::int32_t rank = 0; rank < grid_.ranks(); ++rank) {
      std::vector<Block> blocks = held_[at(rank)];
      std::sort(blocks.begin(), blocks.end());
      if (blocks != output_blocks(schedule_of(rank))) {
        return "rank " + std::to_string(rank) + " does not end with its blocks, each once";
      }
      const auto& sum = summed_[at(rank)];
      if (schedule::is(plan_.collective, RODA_COMBINES) && std::count(sum.begin(), sum.end(), false) > 0) {
        return "rank " + std::to_string(rank) + " ends with " +
               std::to_string(std::count(sum.begin(), sum.end(), true)) + " of " + std::to_string(sum.size()) +
               " contributions";
      }
    }
    return std::nullopt;
  }

  const Plan& plan_;
  const Grid& grid_;
  Shares shares_;  // only the members that have one go on to other axes
  std::optional<std::int32_t> only_;
  std::vector<std::vector<Route>>& kept_;  // [rank][stage]
  std::vector<std::vector<Block>> held_;   // [rank]
  std::vector<std::vector<bool>> summed_;  // [rank] whose contributions are in what it holds
  std::size_t stage_ = 0;
  std::int32_t targets_ = INT32_MAX;
  bool opens_ = false;
};

}  // namespace

void Compiler::find_routes(std::optional<std::int32_t> only) { wrong_ = Follower(plan_, grid_, only, &routes_).run(); }

}  // namespace roda::plan

// Compiler: the way of every block through a plan of allgather, reduce-scatter or alltoall.

#include <algorithm>
#include <span>
#include <utility>

#include "algorithms/index.h"
#include "algorithms/plan/compile.h"

namespace roda::plan {

using schedule::Block;

namespace {

class Follower {
 public:
  Follower(const Plan& plan, const Grid& grid, std::optional<std::int32_t> only,
           std::vector<std::vector<Route>>* routes)
      : plan_(plan), grid_(grid), shares_(grid), only_(only), kept_(*routes) {
    kept_.assign(at(grid.ranks()), {});
    schedule::Outline of;
    of.collective = plan.collective;
    of.size = of.chunks = grid.ranks();
    of.in_place = false;
    for (; of.rank < of.size; ++of.rank) held_.push_back(input_blocks(of));
  }

  void run() {
    for (stage_ = 0; stage_ < plan_.stages.size(); ++stage_) {
      const bool closes = shares_.close(stage().axis);
      const bool opens = !closes && comes_back();
      targets_ = opens ? shares_.smallest_group(stage().axis) : INT32_MAX;
      for (const auto& group : grid_.groups(stage().axis)) pass(group);
      if (opens) shares_.open(stage().axis);
    }
  }

 private:
  const Stage& stage() const { return plan_.stages[stage_]; }
  bool is_combined() const { return schedule::is(stage().collective, RODA_COMBINES); }

  // Does a later stage take the blocks on along the same axis?
  bool comes_back() const {
    return std::any_of(plan_.stages.begin() + static_cast<std::ptrdiff_t>(stage_) + 1, plan_.stages.end(),
                       [&](const Stage& later) { return later.axis == stage().axis; });
  }

  // One group's stage.
  void pass(const schedule::Members& members) {
    const std::vector<std::int32_t>& group = *members;
    std::vector<Route> routes(group.size());
    const bool takes_part = grid_.has_work(stage().axis, members) && shares_.has_one(group.front());
    if (takes_part) fill(group, routes);
    for (std::size_t i = 0; i < group.size(); ++i) {
      if (takes_part) {
        routes[i].members = members;
        routes[i].index = static_cast<std::int32_t>(i);
        held_[at(group[i])] = routes[i].out;
      }
      if (!only_ || group[i] == *only_) kept_[at(group[i])].push_back(std::move(routes[i]));
    }
  }

  void fill(const std::vector<std::int32_t>& group, std::vector<Route>& routes) {
    if (schedule::entry_of(stage().collective).input == RODA_OWN_PART) return gather(group, routes);
    for (std::size_t i = 0; i < group.size(); ++i) sort_out(group.size(), group[i], &routes[i]);
    is_combined() ? reduce(routes) : hand_over(routes);
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
      routes[i] = whole;
      routes[i].in = held_[at(group[i])];
    }
  }

  // Each block goes to a member: by the place of the rank that it is for; handed over by an allgather, that it is of.
  void sort_out(std::size_t members, std::int32_t rank, Route* route) const {
    std::vector<std::vector<Block>> to(members);
    for (const Block& block : held_[at(rank)]) {
      const std::int32_t about = block.to < 0 ? block.from : block.to;
      to[at(grid_.place(about, stage().axis) % targets_)].push_back(block);
    }
    for (auto& blocks : to) {
      if (is_combined()) std::ranges::sort(blocks);
      route->in.insert(route->in.end(), blocks.begin(), blocks.end());
      route->in_ends.push_back(static_cast<std::int32_t>(route->in.size()));
      route->most_blocks = std::max(route->most_blocks, static_cast<std::int32_t>(blocks.size()));
    }
  }

  // What a member brings for another.
  static std::span<const Block> part(const Route& route, std::size_t member) {
    const std::int32_t begin = member == 0 ? 0 : route.in_ends[member - 1];
    return std::span(route.in).subspan(at(begin), at(route.in_ends[member] - begin));
  }

  static void hand_over(std::vector<Route>& routes) {
    std::int32_t most = 0;
    for (const Route& route : routes) most = std::max(most, route.most_blocks);
    for (std::size_t to = 0; to < routes.size(); ++to) {
      for (const Route& from : routes) {
        const auto blocks = part(from, to);
        routes[to].out.insert(routes[to].out.end(), blocks.begin(), blocks.end());
        routes[to].out_ends.push_back(static_cast<std::int32_t>(routes[to].out.size()));
      }
      routes[to].most_blocks = most;
    }
  }

  static void reduce(std::vector<Route>& routes) {
    for (std::size_t i = 0; i < routes.size(); ++i) {
      const auto blocks = part(routes[i], i);
      routes[i].out.assign(blocks.begin(), blocks.end());
    }
  }

  const Plan& plan_;
  const Grid& grid_;
  Shares shares_;  // only the members that have one go on to other axes
  std::optional<std::int32_t> only_;
  std::vector<std::vector<Route>>& kept_;  // [rank][stage]
  std::vector<std::vector<Block>> held_;   // [rank]
  std::size_t stage_ = 0;
  std::int32_t targets_ = INT32_MAX;  // how many members of a group blocks go to
};

}  // namespace

void Compiler::find_routes(std::optional<std::int32_t> only) { Follower(plan_, grid_, only, &routes_).run(); }

}  // namespace roda::plan

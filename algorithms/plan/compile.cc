#include "algorithms/plan/compile.h"

#include <algorithm>
#include <map>
#include <memory>
#include <utility>

namespace roda::plan {

using schedule::Block;
using schedule::Call;
using schedule::Collective;
using schedule::Range;
using schedule::Schedule;
using schedule::Space;
using schedule::Step;
using schedule::StepKind;

namespace {

std::size_t at(std::int32_t i) { return static_cast<std::size_t>(i); }

void add_call(Call call, const Range& src, const Range& dst, Schedule* out) {
  out->calls.push_back(std::move(call));
  out->lanes.front().steps.push_back({StepKind::kCall, 0, src, dst});
}

void add_copy(const Range& src, const Range& dst, Schedule* out) {
  if (src != dst && dst.count > 0) out->lanes.front().steps.push_back({StepKind::kCopy, 0, src, dst});
}

Range add_region(std::int32_t buffer, const std::vector<Block>& blocks, Schedule* out) {
  const Range range{Space::kScratch, out->scratch_chunks, static_cast<std::int32_t>(blocks.size())};
  out->regions.push_back({range.first, range.count, buffer});
  out->scratch.insert(out->scratch.end(), blocks.begin(), blocks.end());
  out->scratch_chunks += range.count;
  return range;
}

Range whole(Space space, std::size_t chunks) { return {space, 0, static_cast<std::int32_t>(chunks)}; }

}  // namespace

Compiler::Compiler(const Plan& plan, const Grid& grid, std::int32_t root, std::optional<std::int32_t> only)
    : plan_(plan), ranks_(grid.ranks()), root_(root) {
  if (!has_routes(plan)) {
    parts_.emplace(plan, grid, root);
    if (plan.collective != Collective::kAllreduce) return;
    for (std::size_t stage = 0; stage < plan.stages.size(); ++stage) {
      const bool shares = plan.stages[stage].collective != Collective::kAllreduce;
      for (std::int32_t rank = 0; rank < ranks_; ++rank) {
        const Part part = parts_->of(stage, rank);
        if (part.members != nullptr) {
          chunks_ = std::max(chunks_, static_cast<std::int32_t>(part.parts) * (shares ? part.shares : 1));
          break;  // parts and shares are the same for all that take part
        }
      }
    }
    return;
  }
  routes_.assign(at(ranks_), std::vector<Route>());
  wrong_ = follow(plan, grid, [&](std::size_t stage, std::int32_t rank, Route&& route) {
    if (only && rank != *only) return;
    routes_[at(rank)].resize(plan.stages.size());
    routes_[at(rank)][stage] = std::move(route);
  });
}

Schedule Compiler::schedule(std::int32_t rank) const {
  if (has_routes(plan_)) return blocks(rank);
  if (plan_.collective == Collective::kBroadcast) return broadcast(rank);
  return plan_.collective == Collective::kAllreduce ? shares(rank) : blocks(rank);
}

Schedule Compiler::empty(std::int32_t rank) const {
  Schedule made;
  made.algorithm = plan_.name;
  made.collective = plan_.collective;
  made.rank = rank;
  made.size = ranks_;
  made.root = root_;
  made.in_place = false;
  made.stages = static_cast<std::int32_t>(plan_.stages.size());
  made.lanes.resize(1);
  const bool is_cut = plan_.collective == Collective::kAllreduce || plan_.collective == Collective::kBroadcast;
  made.chunks = is_cut ? chunks_ : ranks_;
  return made;
}

Call Compiler::call(std::size_t stage, const schedule::Members& members, std::int32_t index) const {
  Call made;
  made.collective = plan_.stages[stage].collective;
  made.algorithm = plan_.stages[stage].algorithm;
  made.stage = static_cast<std::int32_t>(stage);
  made.members = members;
  made.index = index;
  return made;
}

// Chunks of one member's share.
std::int32_t Compiler::share_chunks(const Part& part) const {
  return chunks_ / (static_cast<std::int32_t>(part.parts) * part.shares);
}

std::vector<std::int32_t> Compiler::share_ends(const Part& part) const {
  std::vector<std::int32_t> ends;
  for (std::int32_t member = 0; at(member) < part.members->size(); ++member) {
    ends.push_back(std::min(member + 1, part.shares) * share_chunks(part));
  }
  return ends;
}

// A reduce-scatter leaves the rank with its share, and the allgather along the same axis takes that back to where the
// reduce-scatter had read. A rank without work in a stage keeps what it has where it lies.
Schedule Compiler::shares(std::int32_t rank) const {
  struct Place {  // of the data of one depth of scattering
    Range in, out;
  };
  Schedule made = empty(rank);
  const Range output = whole(Space::kOutput, at(chunks_));
  std::vector<Place> places{{whole(Space::kInput, at(chunks_)), output}};
  for (std::size_t stage = 0; stage < plan_.stages.size(); ++stage) {
    const Part part = parts_->of(stage, rank);
    Place& top = places.back();
    switch (plan_.stages[stage].collective) {
      case Collective::kReduceScatter: {
        Place next = part.members == nullptr ? Place{} : top;
        if (part.has_work) {
          std::vector<Block> own;
          if (part.index < part.shares) {
            const std::int32_t first =
                (static_cast<std::int32_t>(part.part) * part.shares + part.index) * share_chunks(part);
            for (std::int32_t i = 0; i < share_chunks(part); ++i) own.push_back({-1, first + i});
          }
          next.in = next.out = add_region(static_cast<std::int32_t>(places.size()) - 1, own, &made);
          Call scatter = call(stage, part.members, part.index);
          scatter.src_ends = share_ends(part);
          add_call(std::move(scatter), top.in, next.out, &made);
        }
        places.push_back(next);
        break;
      }
      case Collective::kAllgather: {
        const Place closed = top;
        places.pop_back();
        Place& opened = places.back();
        if (part.has_work) {
          Call gather = call(stage, part.members, part.index);
          gather.dst_ends = share_ends(part);
          add_call(std::move(gather), closed.in, opened.out, &made);
        }
        if (part.has_work || closed.in == opened.out) opened.in = opened.out;
        break;
      }
      default:
        if (!part.has_work) break;
        add_call(call(stage, part.members, part.index), top.in, top.out, &made);
        top.in = top.out;
        break;
    }
  }
  add_copy(places.front().in, output, &made);
  return made;
}

Schedule Compiler::broadcast(std::int32_t rank) const {
  Schedule made = empty(rank);
  const Range output = whole(Space::kOutput, at(chunks_));
  Range data = rank == root_ ? whole(Space::kInput, at(chunks_)) : output;
  for (std::size_t stage = 0; stage < plan_.stages.size(); ++stage) {
    const Part part = parts_->of(stage, rank);
    if (!part.has_work) continue;
    Call made_call = call(stage, part.members, part.index);
    made_call.root = part.root;
    add_call(std::move(made_call), data, output, &made);
    data = output;
  }
  add_copy(data, output, &made);
  return made;
}

namespace {

// Copies chunks of `held`, which lie one behind the other from `from` on, to the order `wanted` from `to` on.
void sort_into(const Range& from, const std::vector<Block>& held, const Range& to, const std::vector<Block>& wanted,
               Schedule* out) {
  std::map<Block, std::int32_t> at_place;
  for (std::size_t i = 0; i < held.size(); ++i) at_place.emplace(held[i], static_cast<std::int32_t>(i));
  Range src = from, dst = to;
  src.count = dst.count = 0;
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    const std::int32_t place = from.first + at_place.at(wanted[i]);
    if (src.count == 0 || place != src.first + src.count) {
      add_copy(src, dst, out);
      src = {from.space, place, 0};
      dst = {to.space, to.first + static_cast<std::int32_t>(i), 0};
    }
    ++src.count;
    ++dst.count;
  }
  add_copy(src, dst, out);
}

// What a plan of one call does with blocks, as a route.
Route direct_route(const Schedule& of, const Part& part) {
  Route route;
  route.members = part.members;
  route.index = part.index;
  route.in = input_blocks(of);
  route.out = output_blocks(of);
  const bool sends_to_each = of.collective != Collective::kAllgather;
  const bool takes_from_each = of.collective != Collective::kReduceScatter;
  for (std::int32_t member = 1; member <= of.size; ++member) {
    if (sends_to_each) route.in_ends.push_back(member);
    if (takes_from_each) route.out_ends.push_back(member);
  }
  route.most_blocks = 1;
  return route;
}

}  // namespace

// Blocks go from call to call; each takes them in its own order.
Schedule Compiler::blocks(std::int32_t rank) const {
  Schedule made = empty(rank);
  std::vector<Route> routes;
  if (parts_ && !plan_.stages.empty()) {
    routes.push_back(direct_route(made, parts_->of(0, rank)));
  } else if (!parts_) {
    routes = routes_[at(rank)];
  }
  const std::vector<Block> wanted = output_blocks(made);
  const Range output = whole(Space::kOutput, wanted.size());
  const auto last = std::find_if(routes.rbegin(), routes.rend(), [](const Route& r) { return r.members != nullptr; });
  std::vector<Block> held = input_blocks(made);
  Range data = whole(Space::kInput, held.size());
  std::int32_t turn = 0;
  for (std::size_t stage = 0; stage < routes.size(); ++stage) {
    const Route& route = routes[stage];
    if (route.members == nullptr) continue;
    if (held != route.in) {
      const Range sorted = add_region(0, route.in, &made);
      sort_into(data, held, sorted, route.in, &made);
      data = sorted;
    }
    const bool is_result = &route == &*last && route.out == wanted;
    const Range dst = is_result ? output : add_region(1 + turn++ % 2, route.out, &made);
    Call made_call = call(stage, route.members, route.index);
    made_call.src_ends = route.in_ends;
    made_call.dst_ends = route.out_ends;
    made_call.most_blocks = route.most_blocks;
    if (made_call.collective == Collective::kReduceScatter) made_call.dst_ends.clear();
    if (made_call.collective == Collective::kAllgather) made_call.src_ends.clear();
    add_call(std::move(made_call), data, dst, &made);
    held = route.out;
    data = dst;
  }
  if (data != output) sort_into(data, held, output, wanted, &made);
  return made;
}

}  // namespace roda::plan

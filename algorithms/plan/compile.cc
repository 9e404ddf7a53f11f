#include "algorithms/plan/compile.h"

#include <algorithm>
#include <map>
#include <memory>
#include <numeric>
#include <utility>

#include "algorithms/index.h"

namespace roda::plan {

using schedule::Block;
using schedule::Call;
using schedule::Collective;
using schedule::is_allreduction;
using schedule::Range;
using schedule::Schedule;
using schedule::Space;
using schedule::Step;
using schedule::StepKind;

namespace {

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

}  // namespace

Compiler::Compiler(const Plan& plan, const Grid& grid, std::int32_t root, std::optional<std::int32_t> only)
    : plan_(plan),
      grid_(grid),
      turned_(schedule::is(plan.collective, RODA_ROOTED) ? plan::rooted(grid, root) : Grid()),
      root_(root) {
  if (plan.collective == Collective::kAdasum) find_everybody();
  has_routes(plan) ? find_routes(only) : cut_stages();
}

// Ranks of a unit one after the other, as their shares are of one vector.
void Compiler::find_everybody() {
  std::vector<std::int32_t> ranks(at(grid_.ranks()));
  std::iota(ranks.begin(), ranks.end(), 0);
  std::ranges::sort(ranks, [this](std::int32_t a, std::int32_t b) {
    const Grid::Place &one = grid_.places()[at(a)], &other = grid_.places()[at(b)];
    return std::lexicographical_compare(one.rbegin(), one.rend(), other.rbegin(), other.rend());
  });
  index_of_.resize(ranks.size());
  for (std::size_t i = 0; i < ranks.size(); ++i) index_of_[at(ranks[i])] = static_cast<std::int32_t>(i);
  everybody_ = std::make_shared<const std::vector<std::int32_t>>(std::move(ranks));
}

// Cuts the data so that every part of an allreduce that some stage works on is a number of chunks.
void Compiler::cut_stages() {
  Shares shares(turned_.ranks() > 0 ? turned_ : grid_);
  for (const Stage& stage : plan_.stages) {
    const bool closes = stage.collective == Collective::kAllgather && shares.close(stage.axis);
    Cut& cut = cuts_.emplace_back(Cut{shares, 1});
    if (!is_allreduction(stage.collective)) {
      cut.members = closes ? shares.width(stage.axis) : shares.smallest_group(stage.axis);
    }
    if (stage.collective == Collective::kReduceScatter) shares.open(stage.axis);
    if (!is_allreduction(plan_.collective)) continue;
    chunks_ = std::max(chunks_, static_cast<std::int32_t>(cut.before.count()) * cut.members);
  }
}

Part Compiler::part(std::size_t stage, std::int32_t rank) const {
  const std::int32_t axis = plan_.stages[stage].axis;
  if (turned_.ranks() > 0) return rooted_part(axis, rank);
  const Cut& cut = cuts_[stage];
  Part part;
  if (!cut.before.has_one(rank)) return part;
  part.members = grid_.group(axis, rank);
  part.index = grid_.index(axis, rank);
  part.part = cut.before.number(rank);
  part.parts = cut.before.count();
  part.shares = cut.members;
  if (plan_.stages[stage].collective == Collective::kAdasum) {
    part.members = everybody_;
    part.index = index_of_[at(rank)];
    part.root = part.parts > 1 ? static_cast<std::int32_t>(part.parts) : 0;
  }
  part.has_work = grid_.has_work(axis, part.members);
  return part;
}

// One rank of each unit inside the axis takes part.
Part Compiler::rooted_part(std::int32_t axis, std::int32_t rank) const {
  Part part;
  for (std::int32_t inner = 0; inner < axis; ++inner) {
    if (turned_.place(rank, inner) != 0) return part;
  }
  part.members = turned_.group(axis, rank);
  part.index = turned_.index(axis, rank);
  const auto has_data = [&](std::int32_t member) {
    return axis == turned_.last_axis() ? member == root_ : turned_.place(member, axis) == 0;
  };
  part.root = static_cast<std::int32_t>(std::ranges::find_if(*part.members, has_data) - part.members->begin());
  part.has_work = turned_.has_work(axis, part.members);
  return part;
}

Schedule Compiler::schedule(std::int32_t rank) const {
  if (schedule::is(plan_.collective, RODA_ROOTED)) return rooted(rank);
  return is_allreduction(plan_.collective) ? shares(rank) : blocks(rank);
}

Schedule Compiler::empty(std::int32_t rank) const {
  Schedule made;
  made.algorithm = plan_.name;
  made.collective = plan_.collective;
  made.rank = rank;
  made.size = grid_.ranks();
  made.root = root_;
  made.in_place = false;
  made.stages = static_cast<std::int32_t>(plan_.stages.size());
  made.lanes.resize(1);
  made.chunks = schedule::is_cut(plan_.collective) ? chunks_ : grid_.ranks();
  return made;
}

Call Compiler::call(std::size_t stage, const schedule::Members& members, std::int32_t index) const {
  const Stage& of = plan_.stages[stage];
  return {of.collective, of.algorithm, static_cast<std::int32_t>(stage), members, index};
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
    const Part part = this->part(stage, rank);
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
        made.calls.back().root = part.root;
        if (plan_.collective == Collective::kAdasum) made.root = part.root;
        top.in = top.out;
        break;
    }
  }
  add_copy(places.front().in, output, &made);
  return made;
}

// A broadcast or a reduce. What is summed up in a unit lies on the root's counterpart there, in one region for all its
// stages.
Schedule Compiler::rooted(std::int32_t rank) const {
  Schedule made = empty(rank);
  const bool is_for_all = !schedule::is_for_root(plan_.collective);
  const bool has_output = is_for_all || rank == root_;
  Range result = has_output ? whole(Space::kOutput, at(chunks_)) : Range();
  Range data = is_for_all && rank != root_ ? result : whole(Space::kInput, at(chunks_));
  for (std::size_t stage = 0; stage < plan_.stages.size(); ++stage) {
    const Part part = this->part(stage, rank);
    if (!part.has_work) continue;
    const bool receives = is_for_all || part.index == part.root;
    if (receives && result.count == 0) result = add_region(0, input_blocks(made), &made);
    Call made_call = call(stage, part.members, part.index);
    made_call.root = part.root;
    add_call(std::move(made_call), data, receives ? result : Range(), &made);
    if (receives) data = result;
  }
  if (has_output) add_copy(data, result, &made);
  return made;
}

// The blocks of a plan with one stage.
Route Compiler::only_route(const Schedule& of) const {
  const Part part = this->part(0, of.rank);
  Route route{part.members, part.index, input_blocks(of), {}, output_blocks(of), {}, 1};
  for (std::int32_t member = 1; member <= of.size; ++member) {
    route.in_ends.push_back(member);
    route.out_ends.push_back(member);
  }
  return route;
}

// Blocks go from call to call; each takes them in its own order.
Schedule Compiler::blocks(std::int32_t rank) const {
  Schedule made = empty(rank);
  std::vector<Route> routes;
  if (!has_routes(plan_) && !plan_.stages.empty()) routes.push_back(only_route(made));
  if (has_routes(plan_)) routes = routes_[at(rank)];
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
    if (schedule::entry_of(made_call.collective).output == RODA_OWN_PART) made_call.dst_ends.clear();
    if (schedule::entry_of(made_call.collective).input == RODA_OWN_PART) made_call.src_ends.clear();
    add_call(std::move(made_call), data, dst, &made);
    held = route.out;
    data = dst;
  }
  if (data != output) sort_into(data, held, output, wanted, &made);
  return made;
}

}  // namespace roda::plan

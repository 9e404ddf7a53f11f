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
using schedule::Op;
using schedule::Operand;
using schedule::OpKind;
using schedule::Program;
using schedule::Range;
using schedule::Space;

namespace {

Operand operand(const Range& range) { return {range.space, range.space, range.first, range.count}; }

// With as many `sources` as are the last of the program's.
void add_op(OpKind kind, const Range& src, const Range& dst, std::size_t source, std::uint32_t sources, Program* out) {
  std::vector<Op>& ops = out->lanes.front().ops;
  Op op{.kind = kind, .src = operand(src), .dst = operand(dst)};
  op.source = static_cast<std::uint32_t>(source);
  op.sources = sources;
  op.step = static_cast<std::uint32_t>(ops.size());
  ops.push_back(op);
}

void add_call(Call call, const Range& src, const Range& dst, Program* out) {
  add_op(OpKind::kCall, src, dst, out->calls.size(), 0, out);
  out->calls.push_back(std::move(call));
}

void add_copy(const Range& src, const Range& dst, Program* out) {
  if (src == dst || dst.count == 0) return;
  add_op(OpKind::kCombine, src, dst, out->sources.size(), 1, out);
  out->sources.push_back({-1, operand(src)});
}

Range add_region(std::int32_t buffer, const std::vector<Block>& blocks, Program* out) {
  const Range range{Space::kScratch, static_cast<std::int32_t>(out->scratch.size()),
                    static_cast<std::int32_t>(blocks.size())};
  out->regions.push_back({range.first, range.count, buffer});
  out->scratch.insert(out->scratch.end(), blocks.begin(), blocks.end());
  return range;
}

Range whole(Space space, std::size_t chunks) { return {space, 0, static_cast<std::int32_t>(chunks)}; }

// Copies chunks of `held`, which lie one behind the other from `from` on, to the order `wanted` from `to` on.
void sort_into(const Range& from, const std::vector<Block>& held, const Range& to, const std::vector<Block>& wanted,
               Program* out) {
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

// Compiles the call's program, of which the outline is there.
std::optional<std::string> complete(Call* call) {
  const Program& of = *call->program;
  if (of.is_native) return std::nullopt;
  const schedule::Algorithm* algorithm = schedule::find_algorithm(of.collective, of.algorithm);
  if (algorithm == nullptr) {
    return std::string("there is no algorithm ") + schedule::collective_name(of.collective) + "/" + of.algorithm;
  }
  auto made = std::make_shared<Program>();
  auto wrong = schedule::compile(*algorithm, of.rank, of.size, of.root, made.get());
  call->program = std::move(made);
  return wrong;
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

std::optional<std::string> Compiler::compile(std::int32_t rank, Program* program) const {
  *program = outline(rank);
  for (Call& call : program->calls) {
    if (auto wrong = complete(&call)) return "stage " + std::to_string(call.stage) + ": " + *wrong;
  }
  return std::nullopt;
}

Program Compiler::outline(std::int32_t rank) const {
  if (schedule::is(plan_.collective, RODA_ROOTED)) return rooted(rank);
  return is_allreduction(plan_.collective) ? shares(rank) : blocks(rank);
}

Program Compiler::empty(std::int32_t rank) const {
  const bool is_cut = schedule::is_cut(plan_.collective);
  Program made{{plan_.name, plan_.collective, rank, grid_.ranks(), root_, is_cut ? chunks_ : grid_.ranks()}};
  made.in_place = false;
  made.is_formatted = std::ranges::any_of(plan_.stages, [](const Stage& stage) {
    const schedule::Algorithm* algorithm = schedule::find_algorithm(stage.collective, stage.algorithm);
    return algorithm != nullptr && algorithm->format != RODA_WIRE_NONE;
  });
  made.stages = static_cast<std::int32_t>(plan_.stages.size());
  made.lanes.resize(1);
  return made;
}

Call Compiler::call(std::size_t stage, const schedule::Members& members, std::int32_t index, std::int32_t root) const {
  const Stage& of = plan_.stages[stage];
  Program outline = schedule::native_program(of.collective, index, static_cast<std::int32_t>(members->size()), root);
  outline.is_native = of.algorithm == schedule::kNative;
  if (!outline.is_native) outline.algorithm = of.algorithm;
  return {std::make_shared<const Program>(std::move(outline)), static_cast<std::int32_t>(stage), members};
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
Program Compiler::shares(std::int32_t rank) const {
  struct Depth {  // of scattering: where its data lie
    Range in, out;
  };
  Program made = empty(rank);
  const Range output = whole(Space::kOutput, at(chunks_));
  std::vector<Depth> depths{{whole(Space::kInput, at(chunks_)), output}};
  for (std::size_t stage = 0; stage < plan_.stages.size(); ++stage) {
    const Part part = this->part(stage, rank);
    Depth& top = depths.back();
    switch (plan_.stages[stage].collective) {
      case Collective::kReduceScatter: {
        Depth next = part.members == nullptr ? Depth{} : top;
        if (part.has_work) {
          std::vector<Block> own;
          if (part.index < part.shares) {
            const std::int32_t first =
                (static_cast<std::int32_t>(part.part) * part.shares + part.index) * share_chunks(part);
            for (std::int32_t i = 0; i < share_chunks(part); ++i) own.push_back({-1, first + i});
          }
          next.in = next.out = add_region(static_cast<std::int32_t>(depths.size()) - 1, own, &made);
          Call scatter = call(stage, part.members, part.index);
          scatter.src_ends = share_ends(part);
          add_call(std::move(scatter), top.in, next.out, &made);
        }
        depths.push_back(next);
        break;
      }
      case Collective::kAllgather: {
        const Depth closed = top;
        depths.pop_back();
        Depth& opened = depths.back();
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
        add_call(call(stage, part.members, part.index, part.root), top.in, top.out, &made);
        if (plan_.collective == Collective::kAdasum) made.root = part.root;
        top.in = top.out;
        break;
    }
  }
  add_copy(depths.front().in, output, &made);
  return made;
}

// A broadcast or a reduce. What is summed up in a unit lies on the root's counterpart there, in one region for all its
// stages.
Program Compiler::rooted(std::int32_t rank) const {
  Program made = empty(rank);
  const bool is_for_all = !schedule::is_for_root(plan_.collective);
  const bool has_output = is_for_all || rank == root_;
  Range result = has_output ? whole(Space::kOutput, at(chunks_)) : Range();
  Range data = is_for_all && rank != root_ ? result : whole(Space::kInput, at(chunks_));
  for (std::size_t stage = 0; stage < plan_.stages.size(); ++stage) {
    const Part part = this->part(stage, rank);
    if (!part.has_work) continue;
    const bool receives = is_for_all || part.index == part.root;
    if (receives && result.count == 0) result = add_region(0, input_blocks(made), &made);
    add_call(call(stage, part.members, part.index, part.root), data, receives ? result : Range(), &made);
    if (receives) data = result;
  }
  if (has_output) add_copy(data, result, &made);
  return made;
}

// Blocks go from call to call; each takes them in its own order.
Program Compiler::blocks(std::int32_t rank) const {
  Program made = empty(rank);
  const std::vector<Route>& routes = routes_[at(rank)];
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
    const roda_collective_entry& data_of_call = schedule::entry_of(plan_.stages[stage].collective);
    if (data_of_call.output == RODA_OWN_PART) made_call.dst_ends.clear();
    if (data_of_call.input == RODA_OWN_PART) made_call.src_ends.clear();
    add_call(std::move(made_call), data, dst, &made);
    held = route.out;
    data = dst;
  }
  if (data != output) sort_into(data, held, output, wanted, &made);
  return made;
}

}  // namespace roda::plan

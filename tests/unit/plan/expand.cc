#include "tests/unit/plan/expand.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <utility>

#include "algorithms/index.h"
#include "algorithms/plan/compile.h"
#include "algorithms/schedule/build.h"

namespace roda::plan {

using schedule::Algorithm;
using schedule::Block;
using schedule::Call;
using schedule::Collective;
using schedule::is_cut;
using schedule::Range;
using schedule::Schedule;
using schedule::Space;
using schedule::Step;
using schedule::StepKind;

namespace {

std::string stage_text(const Call& call) { return "stage " + std::to_string(call.stage) + ": "; }

// An algorithm of messages for every size, in the place of a library's own.
const Algorithm* stand_in(Collective collective) {
  const Algorithm* found = nullptr;
  for (const char* name : {"ring", "pairwise", "binomial"}) {
    if (found == nullptr) found = schedule::find_algorithm(collective, name);
  }
  return found;
}

const Algorithm* algorithm_of(const Call& call) {
  if (call.algorithm == schedule::kNative) return stand_in(call.collective);
  return schedule::find_algorithm(call.collective, call.algorithm);
}

bool is_one_sided(const Algorithm& algorithm) { return (algorithm.needs & ~schedule::kNeedsMessages) != 0; }

// Where the chunks of an algorithm's schedule lie in a rank's expanded one.
struct Binding {
  Range in, out;                      // what the algorithm works on
  Range result;                       // where the call's result belongs
  std::vector<std::int32_t> begins;   // [chunks + 1] of Input, from in.first
  std::vector<std::int32_t> ends;     // [chunks + 1] of Output, from out.first
  std::vector<std::int32_t> scratch;  // [scratch chunks + 1]
  const Call* call = nullptr;
  Schedule schedule;
};

std::vector<std::int32_t> even_begins(std::int32_t count, std::int32_t chunks) {
  std::vector<std::int32_t> begins;
  for (std::int32_t c = 0; c <= chunks; ++c) begins.push_back(count / chunks * c);
  return begins;
}

std::vector<std::int32_t> with_zero(const std::vector<std::int32_t>& ends) {
  std::vector<std::int32_t> begins{0};
  begins.insert(begins.end(), ends.begin(), ends.end());
  return begins;
}

class Expander {
 public:
  Expander(const std::vector<Schedule>& ranks, std::vector<Schedule>* out) : ranks_(ranks), out_(*out) {}

  std::optional<std::string> run() {
    if (auto wrong = count_parts()) return wrong;
    for (const Schedule& rank : ranks_) begin(rank);
    // All ranks' first calls, then their second ones: a step may name memory of a peer's call.
    std::vector<std::size_t> step(ranks_.size());
    std::vector<std::size_t> call(ranks_.size());
    for (std::int32_t stage = 0; stage < ranks_.front().stages; ++stage) {
      bindings_.clear();
      for (std::size_t r = 0; r < ranks_.size(); ++r) bind(r, stage, &step[r], &call[r]);
      for (auto& [rank, binding] : bindings_) {
        if (auto wrong = append(rank, binding)) return stage_text(*binding.call) + *wrong;
      }
    }
    for (std::size_t r = 0; r < ranks_.size(); ++r) copies(r, &step[r]);
    return std::nullopt;
  }

 private:
  // Parts of an allreduce or broadcast are cut so far that every algorithm's chunks are whole numbers of them.
  std::optional<std::string> count_parts() {
    for (const Schedule& rank : ranks_) {
      for (const Call& call : rank.calls) {
        const Algorithm* algorithm = algorithm_of(call);
        if (algorithm == nullptr) {
          return stage_text(call) + "there is no algorithm " + schedule::collective_name(call.collective) + "/" +
                 call.algorithm;
        }
        if (!algorithm->accepts(call.size())) {
          return stage_text(call) + algorithm->name + " does not run on " + std::to_string(call.size()) + " ranks";
        }
        if (!is_cut(call.collective) || call.index != 0) continue;
        const Schedule made = algorithm->make(0, call.size(), call.root);
        factor_ = std::lcm(factor_, made.chunks);
        product_chunks_ = std::max(product_chunks_, made.product_chunks);
      }
    }
    if (!is_cut(ranks_.front().collective)) factor_ = 1;
    return std::nullopt;
  }

  void begin(const Schedule& rank) {
    Schedule& made = out_.emplace_back(schedule::begin(rank.algorithm.c_str(), rank.collective, rank.rank, rank.size,
                                                       rank.chunks * (is_cut(rank.collective) ? factor_ : 1)));
    made.root = rank.root;
    made.in_place = false;
    made.product_chunks = product_chunks_;
    for (const Block& block : rank.scratch) add_scratch(block, &made);
    made.scratch_chunks = static_cast<std::int32_t>(made.scratch.size());
  }

  void add_scratch(const Block& block, Schedule* made) const {
    for (std::int32_t i = 0; i < factor_; ++i) {
      made->scratch.push_back(factor_ == 1 ? block : Block{block.from, block.to * factor_ + i});
    }
  }

  Range scaled(const Range& range) const { return {range.space, range.first * factor_, range.count * factor_}; }

  void emit(std::size_t rank, const Step& step) { out_[rank].lanes.front().steps.push_back(step); }

  void copy(std::size_t rank, const Range& dst, const Range& src) {
    if (dst.count > 0 && !(dst == src)) emit(rank, schedule::step::copy(dst, src));
  }

  // The copies up to the next call.
  void copies(std::size_t rank, std::size_t* next) {
    const auto& steps = ranks_[rank].lanes.front().steps;
    for (; *next < steps.size() && steps[*next].kind == StepKind::kCopy; ++*next) {
      copy(rank, scaled(steps[*next].dst), scaled(steps[*next].src));
    }
  }

  // The rank's call of the stage, if it makes one; the copies before it.
  void bind(std::size_t rank, std::int32_t stage, std::size_t* step, std::size_t* call) {
    const Schedule& of = ranks_[rank];
    if (*call == of.calls.size() || of.calls[*call].stage != stage) return;
    copies(rank, step);
    Binding& bound = bindings_[rank];
    bound.call = &of.calls[(*call)++];
    const Step& made = of.lanes.front().steps[(*step)++];
    const Algorithm& algorithm = *algorithm_of(*bound.call);
    bound.schedule = algorithm.make(bound.call->index, bound.call->size(), bound.call->root);
    bound.in = scaled(made.src);
    bound.out = scaled(made.dst);
    lay_out(&bound);
    bring_in(rank, algorithm, &bound);
  }

  void lay_out(Binding* bound) const {
    const Call& call = *bound->call;
    const auto chunks = bound->schedule.chunks;
    const auto scale = [this](std::vector<std::int32_t> ends) {
      for (std::int32_t& end : ends) end *= factor_;
      return with_zero(ends);
    };
    bound->begins = call.src_ends.empty() ? even_begins(bound->in.count, chunks) : scale(call.src_ends);
    bound->ends = call.dst_ends.empty() ? even_begins(bound->out.count, chunks) : scale(call.dst_ends);
    if (schedule::entry_of(call.collective).output == RODA_OWN_PART) bound->ends = {0, bound->out.count};
  }

  // Scratch like that range.
  Range scratch_like(std::size_t rank, const Range& range) {
    Schedule& made = out_[rank];
    const bool is_scratch = range.space == Space::kScratch;
    const std::vector<Block> blocks = is_scratch                     ? std::vector<Block>()
                                      : range.space == Space::kInput ? input_blocks(made)
                                                                     : output_blocks(made);
    const Range added{Space::kScratch, made.scratch_chunks, range.count};
    for (std::int32_t i = range.first; i < range.first + range.count; ++i) {
      const Block block = is_scratch ? made.scratch[at(i)] : blocks[at(i)];
      made.scratch.push_back(block);
    }
    made.scratch_chunks += range.count;
    return added;
  }

  // What is there before the algorithm starts: memory of its own where others reach into it, or where it must not
  // overwrite its input; the contribution; scratch.
  void bring_in(std::size_t rank, const Algorithm& algorithm, Binding* bound) {
    const Call& call = *bound->call;
    Schedule& schedule = bound->schedule;
    const bool stages = is_one_sided(algorithm) && call.size() > 1;
    const bool has_input = schedule::reads_input(schedule);
    if (has_input && (stages || bound->in == bound->out)) {
      const Range staged = scratch_like(rank, bound->in);
      copy(rank, staged, bound->in);
      bound->in = staged;
    }
    bound->result = bound->out;
    if (stages) bound->out = scratch_like(rank, bound->out);
    if (stages && schedule.reads_linger) out_[rank].reads_linger = true;
    if (!has_input) bring_contribution(rank, *bound);
    add_scratch_of(rank, bound);
  }

  void bring_contribution(std::size_t rank, const Binding& bound) {
    const Call& call = *bound.call;
    Range own = bound.out;
    if (schedule::is(call.collective, RODA_ROOTED) && call.index != call.root) return;
    if (schedule::entry_of(call.collective).input == RODA_OWN_PART) {
      own.first += bound.ends[at(call.index)];
      own.count = bound.ends[at(call.index) + 1] - bound.ends[at(call.index)];
    }
    copy(rank, own, {bound.in.space, bound.in.first, own.count});
  }

  void add_scratch_of(std::size_t rank, Binding* bound) {
    const Schedule& schedule = bound->schedule;
    const Collective collective = bound->call->collective;
    const bool from_input = schedule::entry_of(collective).output == RODA_OWN_PART || schedule::is_for_root(collective);
    const std::vector<std::int32_t>& begins = from_input ? bound->begins : bound->ends;
    const Range& data = from_input ? bound->in : bound->out;
    bound->scratch.assign(1, out_[rank].scratch_chunks);
    for (std::int32_t i = 0; i < schedule.scratch_chunks; ++i) {
      const std::size_t like = at(schedule.scratch_is_own ? schedule.rank : i % schedule.chunks);
      scratch_like(rank, {data.space, data.first + begins[like], begins[like + 1] - begins[like]});
      bound->scratch.push_back(out_[rank].scratch_chunks);
    }
  }

  static Range map(const Range& range, const Binding& owner) {
    if (range.count == 0 || range.space == Space::kProducts) return range;
    const auto first = at(range.first), last = at(range.first + range.count);
    if (range.space == Space::kScratch) {
      return {Space::kScratch, owner.scratch[first], owner.scratch[last] - owner.scratch[first]};
    }
    const bool is_input = range.space == Space::kInput;
    const Range& data = is_input ? owner.in : owner.out;
    const std::vector<std::int32_t>& begins = is_input ? owner.begins : owner.ends;
    return {data.space, data.first + begins[first], begins[last] - begins[first]};
  }

  std::optional<std::string> append(std::size_t rank, const Binding& bound) {
    for (const schedule::Lane& lane : bound.schedule.lanes) {
      for (const Step& step : lane.steps) {
        if (auto wrong = append(rank, bound, step)) return wrong;
      }
    }
    copy(rank, bound.result, bound.out);
    return std::nullopt;
  }

  // "All peers" are the group's. Chunks that the plan makes empty are not sent.
  std::optional<std::string> append(std::size_t rank, const Binding& bound, const Step& step) {
    const bool is_to_all = !is_local(step.kind) && step.peer == schedule::kAllPeers;
    for (std::int32_t peer = 0; peer < bound.call->size(); ++peer) {
      if (is_to_all ? peer == bound.call->index : !is_local(step.kind) && peer != step.peer) continue;
      const std::int32_t other = (*bound.call->members)[at(peer)];
      const auto found = bindings_.find(is_local(step.kind) ? rank : at(other));
      if (found == bindings_.end() || found->second.call->members != bound.call->members) {
        return "rank " + std::to_string(other) + " does not call what rank " + std::to_string(rank) + " calls";
      }
      Step mapped = step;
      mapped.peer = is_local(step.kind) ? 0 : other;
      mapped.src = map(step.src, reads_peer(step.kind) ? found->second : bound);
      mapped.dst = map(step.dst, step.kind == StepKind::kPut ? found->second : bound);
      mapped.other = map(step.other, bound);
      const bool had_data = step.src.count > 0 || step.dst.count > 0;
      const bool is_gone = had_data && mapped.src.count == 0 && mapped.dst.count == 0;
      if (!is_gone && !(step.kind == StepKind::kCopy && mapped.src == mapped.dst)) emit(rank, mapped);
      if (is_local(step.kind)) break;
    }
    return std::nullopt;
  }

  const std::vector<Schedule>& ranks_;
  std::vector<Schedule>& out_;
  std::int32_t factor_ = 1;
  std::int32_t product_chunks_ = 0;
  std::map<std::size_t, Binding> bindings_;  // by rank, of the stage under way
};

using Calls = std::map<std::vector<std::int32_t>, std::pair<std::int32_t, std::vector<const Call*>>>;

bool are_alike(const Call& a, const Call& b) {
  return a.collective == b.collective && a.algorithm == b.algorithm && a.stage == b.stage && a.root == b.root;
}

// Every member of a group makes the same calls in the same order.
std::optional<schedule::Violation> wrong_order(const std::vector<Schedule>& ranks) {
  Calls known;  // of the first member, by group
  for (const Schedule& rank : ranks) {
    std::map<const std::vector<std::int32_t>*, std::vector<const Call*>> own;
    for (const Call& call : rank.calls) own[call.members.get()].push_back(&call);
    for (const auto& [members, calls] : own) {
      const auto [first, is_new] = known.try_emplace(*members, rank.rank, calls);
      const auto& other = first->second.second;
      if (is_new || std::equal(calls.begin(), calls.end(), other.begin(), other.end(),
                               [](const Call* a, const Call* b) { return are_alike(*a, *b); })) {
        continue;
      }
      return schedule::Violation{
          rank.algorithm, rank.rank, -1, -1,
          "calls in another order than rank " + std::to_string(first->second.first) + " of the same group"};
    }
  }
  return std::nullopt;
}

// Regions of one buffer take turns: what is read of one was written after all others.
std::optional<schedule::Violation> wrong_buffers(const Schedule& rank) {
  std::map<std::int32_t, std::int32_t> holder;  // by buffer: the first chunk of the region that was written last
  const auto region_of = [&rank](const Range& range) {
    return std::find_if(rank.regions.begin(), rank.regions.end(), [&range](const schedule::Region& r) {
      return range.first >= r.first && range.first + range.count <= r.first + r.count;
    });
  };
  std::int32_t index = 0;
  for (const Step& step : rank.lanes.front().steps) {
    for (const bool reads : {true, false}) {
      const Range& range = reads ? step.src : step.dst;
      if (range.space != Space::kScratch || range.count == 0) continue;
      const auto region = region_of(range);
      std::string wrong;
      if (region == rank.regions.end()) wrong = "lies in no region, or in several";
      if (wrong.empty() && reads && holder[region->buffer] != region->first + 1) wrong = "was overwritten before this";
      if (!wrong.empty()) return schedule::Violation{rank.algorithm, rank.rank, 0, index, "scratch " + wrong};
      if (!reads) holder[region->buffer] = region->first + 1;
    }
    ++index;
  }
  return std::nullopt;
}

std::optional<schedule::Violation> wrong_in_place(const Schedule& rank) {
  if (!is_cut(rank.collective)) return std::nullopt;
  bool is_written = false;
  std::int32_t index = 0;
  for (const Step& step : rank.lanes.front().steps) {
    if (is_written && step.src.space == Space::kInput && step.src.count > 0) {
      return schedule::Violation{rank.algorithm, rank.rank, 0, index, "reads input, which output may have overwritten"};
    }
    is_written = is_written || (step.dst.space == Space::kOutput && step.dst.count > 0);
    ++index;
  }
  return std::nullopt;
}

}  // namespace

std::optional<std::string> expand(const std::vector<Schedule>& ranks, std::vector<Schedule>* out) {
  out->clear();
  return Expander(ranks, out).run();
}

std::optional<schedule::Violation> verify_composed(const std::vector<Schedule>& ranks) {
  if (auto violation = wrong_order(ranks)) return violation;
  for (const Schedule& rank : ranks) {
    if (auto violation = wrong_buffers(rank)) return violation;
    if (auto violation = wrong_in_place(rank)) return violation;
  }
  std::vector<Schedule> expanded;
  if (const auto wrong = expand(ranks, &expanded)) {
    return schedule::Violation{ranks.front().algorithm, 0, -1, -1, *wrong};
  }
  return schedule::verify(expanded);
}

std::string to_text(const Plan& plan, const Grid& grid) {
  std::string text = plan.name + ":";
  for (std::size_t s = 0; s < plan.stages.size(); ++s) {
    const Stage& stage = plan.stages[s];
    text += std::string(s == 0 ? " " : "; ") + schedule::collective_name(stage.collective) + "(" +
            grid.names()[at(stage.axis)] + ", " + stage.algorithm + ")";
  }
  return text;
}

std::optional<schedule::Violation> verify(const Plan& plan, const Grid& grid) {
  const std::int32_t roots = schedule::is(plan.collective, RODA_ROOTED) ? grid.ranks() : 1;
  for (std::int32_t root = 0; root < roots; ++root) {
    const Compiler compiler(plan, grid, root);
    std::vector<Schedule> ranks;
    for (std::int32_t rank = 0; rank < grid.ranks(); ++rank) ranks.push_back(compiler.schedule(rank));
    if (auto violation = verify_composed(ranks)) return violation;
  }
  return std::nullopt;
}

}  // namespace roda::plan

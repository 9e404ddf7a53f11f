#include "tests/seeds/job.h"

#include <algorithm>
#include <array>
#include <bit>

#include "core/submit/operation.h"

namespace roda::seeds {
namespace {

std::vector<std::int32_t> draw_set(Draw& draw, int ranks) {
  std::vector<std::int32_t> set;
  for (std::int32_t rank = 0; rank < ranks; ++rank) {
    if (!draw_one_in(draw, 3)) set.push_back(rank);
  }
  if (set.empty()) set.push_back(static_cast<std::int32_t>(draw_below(draw, static_cast<std::size_t>(ranks))));
  return set;
}

// Mostly small ones.
std::int64_t draw_rows(Draw& draw) {
  constexpr std::int64_t kRows[] = {0, 1, 1, 2, 5, 64, 64, 300, 300, 3000};
  return kRows[draw_below(draw, std::size(kRows))];
}

// Sets that come and go are numbered from here on in a job; the engine gives them numbers of its own.
constexpr std::int32_t kFirstMadeSet = 100;

// A set that comes, some calls of its members, and its end.
void insert_set(Draw& draw, Job* job, std::int32_t number) {
  std::vector<std::int32_t> all;
  for (std::int32_t rank = 0; rank < job->ranks; ++rank) all.push_back(rank);
  const std::vector<std::int32_t> ranks = draw_set(draw, job->ranks);
  const bool is_known = std::ranges::find(job->sets, ranks) != job->sets.end() ||
                        std::ranges::find(job->calls, ranks, &Call::set_ranks) != job->calls.end();
  if (ranks.size() == all.size() || is_known) return;
  std::vector<Call> block;
  block.push_back({.name = "made set", .set = number, .members = all, .adds_set = true});
  for (std::size_t i = draw_below(draw, 4); i > 0; --i) {
    block.push_back({.name = "of made set", .set = number, .members = ranks, .rows = 5});
  }
  block.push_back({.name = "made set", .set = number, .members = all, .removes_set = true});
  block.front().set_ranks = block.back().set_ranks = ranks;
  const auto at = static_cast<std::ptrdiff_t>(draw_below(draw, job->calls.size() + 1));
  job->calls.insert(job->calls.begin() + at, block.begin(), block.end());
}

// Uneven data at the end: each rank has so many more tensors than others, and joins behind its last.
void append_joins(Draw& draw, Job* job) {
  const std::size_t steps = 1 + draw_below(draw, 5);
  std::vector<std::size_t> has;
  for (int rank = 0; rank < job->ranks; ++rank) has.push_back(draw_below(draw, steps + 1));
  Call join{.name = engine::kJoinName, .collective = RODA_JOIN, .members = {}};
  for (std::int32_t rank = 0; rank < job->ranks; ++rank) join.members.push_back(rank);
  for (std::size_t i = 0; i < steps; ++i) {
    Call call{.name = "tail " + std::to_string(draw_below(draw, 2)), .members = {}, .rows = 3};
    for (const std::int32_t rank : join.members) {
      if (has[static_cast<std::size_t>(rank)] > i) call.members.push_back(rank);
    }
    if (draw_one_in(draw, 3)) call.tensors = 2;
    if (!call.members.empty()) job->calls.push_back(call);
  }
  job->calls.push_back(join);
}

// What can be combined, with values that whole numbers of that dtype hold exactly (see Flight).
void draw_numbers(Draw& draw, int ranks, Call* call) {
  const bool combines = roda_collective_is(call->collective, RODA_COMBINES) != 0;
  std::vector<std::int32_t> dtypes{RODA_INT64, RODA_INT64, RODA_FLOAT64};
  if (ranks <= 8) dtypes.insert(dtypes.end(), {RODA_INT32, RODA_FLOAT32});
  call->dtype = dtypes[draw_below(draw, dtypes.size())];
  if (!combines) return;
  const bool is_float = roda_dtype_is(call->dtype, RODA_FLOAT) != 0;
  const bool has_more = roda_collective_is(call->collective, RODA_SUMS_ONLY) == 0;
  constexpr std::int32_t kOps[] = {RODA_SUM, RODA_SUM, RODA_AVERAGE, RODA_SUM, RODA_MIN, RODA_MAX, RODA_PRODUCT};
  call->op = kOps[draw_below(draw, has_more ? std::size(kOps) : 4)];
  if (is_float && call->op <= RODA_SUM && draw_one_in(draw, 3)) {
    call->prescale = std::array{1.0, 2.0, 0.5}[draw_below(draw, 3)];
    call->postscale = std::array{1.0, 4.0, 0.25}[draw_below(draw, 3)];
  }
  const bool may_be_adasum = call->collective == RODA_ALLREDUCE && is_float && call->prescale == 1.0 &&
                             call->postscale == 1.0 && std::has_single_bit(call->members.size());
  if (may_be_adasum && draw_one_in(draw, 4)) {
    call->collective = RODA_ADASUM_ALLREDUCE;
    call->op = RODA_ADASUM;
  }
}

Call draw_kind(Draw& draw, const Job& job, std::size_t number) {
  constexpr std::int32_t kKinds[] = {RODA_ALLREDUCE, RODA_ALLREDUCE, RODA_ALLREDUCE,     RODA_ALLGATHER, RODA_ALLGATHER,
                                     RODA_BROADCAST, RODA_ALLTOALL,  RODA_REDUCESCATTER, RODA_REDUCE,    RODA_BARRIER};
  Call call{.name = "tensor " + std::to_string(number), .members = {}};
  call.collective = kKinds[draw_below(draw, std::size(kKinds))];
  call.set = static_cast<std::int32_t>(draw_below(draw, job.sets.size() + 1));
  if (call.set != 0) call.members = job.sets[static_cast<std::size_t>(call.set - 1)];
  for (std::int32_t rank = 0; call.set == 0 && rank < job.ranks; ++rank) call.members.push_back(rank);
  if (call.collective == RODA_BARRIER) {
    call.name = engine::kBarrierName + std::to_string(call.set);
    return call;
  }
  call.rows = draw_rows(draw);
  call.root = call.members[draw_below(draw, call.members.size())];
  draw_numbers(draw, job.ranks, &call);
  const std::uint32_t input = static_cast<std::uint32_t>(roda_collective_of(call.collective)->input);
  call.width = std::array<std::int64_t, 4>{1, 1, 3, input == RODA_WHOLE ? 0 : 2}[draw_below(draw, 4)];
  if (draw_one_in(draw, 4)) call.tensors = 2 + draw_below(draw, 3);
  const bool is_whole = call.collective == RODA_ALLREDUCE || call.collective == RODA_BROADCAST;
  (is_whole ? call.is_in_place : call.gives_memory) = draw_one_in(draw, 3);
  return call;
}

void make_odd(Draw& draw, Call* call) {
  using Oddity = Call::Oddity;
  if (call->members.size() < 2 || call->collective == RODA_BARRIER) return;
  std::vector<Oddity> oddities{Oddity::kDtype, Oddity::kCollective};
  const bool combines = roda_collective_is(call->collective, RODA_COMBINES) != 0;
  if (combines) oddities.insert(oddities.end(), {Oddity::kRows, Oddity::kOp, Oddity::kFactor});
  if (roda_collective_is(call->collective, RODA_ROOTED) != 0) oddities.push_back(Oddity::kRoot);
  call->odd = call->members[draw_below(draw, call->members.size())];
  call->odd_in = oddities[draw_below(draw, oddities.size())];
  call->width = std::max<std::int64_t>(call->width, 1);
}

}  // namespace

bool Call::has_member(int rank) const { return std::ranges::binary_search(members, rank); }

std::string Call::text() const { return (adds_set ? "+ " : removes_set ? "- " : "") + name; }

Job draw_job(Draw& draw, int ranks, std::size_t calls) {
  Job job{.ranks = ranks, .sets = {}, .calls = {}};
  for (std::size_t i = draw_below(draw, 3); i > 0; --i) {
    const std::vector<std::int32_t> set = draw_set(draw, ranks);
    const bool is_new = static_cast<int>(set.size()) < ranks && std::ranges::find(job.sets, set) == job.sets.end();
    if (is_new) job.sets.push_back(set);
  }
  std::vector<Call> kinds;  // of which each comes several times, mostly: the cache learns them
  for (std::size_t i = 0; i < 2 + draw_below(draw, 7); ++i) {
    kinds.push_back(draw_kind(draw, job, i));
  }
  for (std::size_t i = 0; i < calls; ++i) {
    Call call = kinds[draw_below(draw, kinds.size())];
    if (call.collective != RODA_BARRIER && draw_one_in(draw, 8)) call.rows = draw_rows(draw);
    if (draw_one_in(draw, 40)) make_odd(draw, &call);
    job.calls.push_back(call);
  }
  for (std::int32_t i = static_cast<std::int32_t>(draw_below(draw, 3)); i > 0; --i) {
    insert_set(draw, &job, kFirstMadeSet + i);
  }
  if (draw_one_in(draw, 3)) append_joins(draw, &job);
  return job;
}

Job cut_job(const Job& job, int ranks, const std::vector<std::size_t>& kept) {
  Job cut{.ranks = ranks, .sets = job.sets, .calls = {}};
  const auto keep = [ranks](std::vector<std::int32_t>* of) {
    std::erase_if(*of, [ranks](std::int32_t rank) { return rank >= ranks; });
  };
  for (auto& set : cut.sets) keep(&set);
  std::erase_if(cut.sets, [](const auto& set) { return set.empty(); });
  std::vector<std::int32_t> made;
  for (std::size_t i = 0; i < job.calls.size(); ++i) {
    Call call = job.calls[i];
    keep(&call.members);
    keep(&call.set_ranks);
    const bool is_kept = kept.empty() || std::ranges::find(kept, i) != kept.end();
    const bool fits = cut.sets.size() == job.sets.size() || call.set == 0;
    if (!is_kept || !fits || call.members.empty() || (call.set >= kFirstMadeSet && ranks < job.ranks)) continue;
    if (call.adds_set) made.push_back(call.set);
    if (call.set >= kFirstMadeSet && std::ranges::find(made, call.set) == made.end()) continue;
    if (!call.has_member(call.root)) call.root = call.members.front();
    if (call.members.size() < 2 || !call.has_member(call.odd)) call.odd = -1;
    if (call.op == RODA_ADASUM && !std::has_single_bit(call.members.size())) continue;
    cut.calls.push_back(call);
  }
  return cut;
}

}  // namespace roda::seeds

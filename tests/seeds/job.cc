#include "tests/seeds/job.h"

#include <algorithm>
#include <cstring>

#include "core/launch/payload.h"
#include "plugins/base/format.h"

namespace roda::seeds {
namespace {

std::int64_t value_of(std::int32_t rank) { return std::int64_t{1} << (3 * rank); }

std::vector<std::int32_t> draw_set(Draw& draw, int ranks) {
  std::vector<std::int32_t> set;
  for (std::int32_t rank = 0; rank < ranks; ++rank) {
    if (!draw_one_in(draw, 3)) set.push_back(rank);
  }
  if (set.empty()) set.push_back(static_cast<std::int32_t>(draw_below(draw, static_cast<std::size_t>(ranks))));
  return set;
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
    if (!call.members.empty()) job->calls.push_back(call);
  }
  job->calls.push_back(join);
}

void make_odd(Draw& draw, Call* call) {
  const bool may_be = call->tensors == 1 && call->members.size() > 1 && call->collective != RODA_BARRIER;
  if (!may_be) return;
  call->odd = call->members[draw_below(draw, call->members.size())];
  const bool is_one_shape = call->collective == RODA_ALLREDUCE || call->collective == RODA_REDUCESCATTER;
  if (is_one_shape) call->odd_in = static_cast<std::int32_t>(draw_below(draw, 2));
  if (call->collective == RODA_BROADCAST) call->odd_in = draw_one_in(draw, 2) ? 2 : 0;
}

}  // namespace

bool Call::has_member(int rank) const { return std::ranges::binary_search(members, rank); }

std::string Call::text() const { return (adds_set ? "+ " : removes_set ? "- " : "") + name; }

Job draw_job(Draw& draw, int ranks, std::size_t calls) {
  constexpr std::int32_t kKinds[] = {RODA_ALLREDUCE, RODA_ALLREDUCE, RODA_ALLREDUCE,     RODA_ALLGATHER,
                                     RODA_BROADCAST, RODA_ALLTOALL,  RODA_REDUCESCATTER, RODA_BARRIER};
  constexpr std::int64_t kRows[] = {1, 2, 5, 64, 300, 3000};
  Job job{.ranks = ranks, .sets = {}, .calls = {}};
  std::vector<std::int32_t> all;
  for (std::int32_t rank = 0; rank < ranks; ++rank) all.push_back(rank);
  for (std::size_t i = draw_below(draw, 3); i > 0; --i) {
    const std::vector<std::int32_t> set = draw_set(draw, ranks);
    const bool is_new = static_cast<int>(set.size()) < ranks && std::ranges::find(job.sets, set) == job.sets.end();
    if (is_new) job.sets.push_back(set);
  }
  std::vector<Call> kinds;  // of which each comes several times, mostly: the cache learns them
  for (std::size_t i = 0; i < 2 + draw_below(draw, 7); ++i) {
    Call call{.name = "tensor " + std::to_string(i), .members = {}};
    call.collective = kKinds[draw_below(draw, std::size(kKinds))];
    call.set = static_cast<std::int32_t>(draw_below(draw, job.sets.size() + 1));
    call.members = call.set == 0 ? all : job.sets[static_cast<std::size_t>(call.set - 1)];
    call.rows = kRows[draw_below(draw, std::size(kRows))];
    call.root = call.members[draw_below(draw, call.members.size())];
    if (call.collective == RODA_ALLREDUCE && draw_one_in(draw, 4)) call.tensors = 2 + draw_below(draw, 3);
    if (call.collective == RODA_BARRIER) call.name = engine::kBarrierName + std::to_string(call.set);
    kinds.push_back(call);
  }
  for (std::size_t i = 0; i < calls; ++i) {
    Call call = kinds[draw_below(draw, kinds.size())];
    if (call.collective != RODA_BARRIER && draw_one_in(draw, 8)) call.rows = kRows[draw_below(draw, std::size(kRows))];
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
    cut.calls.push_back(call);
  }
  return cut;
}

Flight::Flight(const Call& call, int rank) : call_(call), rank_(rank) {
  for (std::size_t t = 0; t < call.tensors; ++t) {
    std::int64_t rows = rows_of(rank_);
    if (call.collective == RODA_ALLTOALL) rows = static_cast<std::int64_t>(call.members.size());
    inputs_.emplace_back(static_cast<std::size_t>(rows), value_of(rank_) * static_cast<std::int64_t>(t + 1));
    outputs_.emplace_back(static_cast<std::size_t>(rows), -1);
    if (call.odd >= 0) inputs_.back().resize(static_cast<std::size_t>(rows) + 1);
  }
}

std::int64_t Flight::rows_of(std::int32_t rank) const {
  return call_.collective == RODA_ALLGATHER ? call_.rows + rank % 3 : call_.rows;
}

void Flight::fill(std::int32_t set, std::span<engine::Operation> operations) {
  std::vector<std::string> names;
  for (std::size_t t = 0; t < operations.size(); ++t) {
    engine::Operation& op = operations[t];
    negotiate::Request& request = op.request = negotiate::Request();
    request.set = set;
    request.collective = call_.collective;
    if (call_.collective == RODA_BARRIER || call_.collective == RODA_JOIN) {
      request.name = call_.collective == RODA_JOIN ? engine::kJoinName : engine::kBarrierName;
      continue;
    }
    request.name = call_.name + (call_.tensors > 1 ? "." + std::to_string(t) : "");
    request.dtype = RODA_INT64;
    request.root = call_.collective == RODA_BROADCAST ? call_.root : 0;
    request.shape = {static_cast<std::int64_t>(outputs_[t].size())};
    if (call_.odd == rank_) {
      if (call_.odd_in == 0) request.dtype = RODA_INT32;
      if (call_.odd_in == 1) ++request.shape[0];
      if (call_.odd_in == 2) request.root = call_.members[call_.members[0] == call_.root ? 1 : 0];
    }
    op.input = inputs_[t].data();
    const bool has_output = call_.collective == RODA_ALLREDUCE || call_.collective == RODA_BROADCAST;
    op.output = has_output ? outputs_[t].data() : nullptr;
    if (call_.collective == RODA_ALLTOALL) request.splits.assign(call_.members.size(), 1);
    names.push_back(request.name);
  }
  if (operations.size() < 2) return;
  const negotiate::Group group{negotiate::group_id(names), static_cast<std::int32_t>(names.size())};
  for (engine::Operation& op : operations) op.request.group = group;
}

// Of the first tensor; the second's are twice as large, and so on.
std::vector<std::int64_t> Flight::expected() const {
  std::int64_t sum = 0;
  for (const std::int32_t rank : call_.members) sum += value_of(rank);
  std::vector<std::int64_t> values;
  switch (call_.collective) {
    case RODA_BROADCAST:
      values.assign(static_cast<std::size_t>(call_.rows), value_of(call_.root));
      break;
    case RODA_ALLGATHER:
      for (const std::int32_t rank : call_.members) {
        values.insert(values.end(), static_cast<std::size_t>(rows_of(rank)), value_of(rank));
      }
      break;
    case RODA_ALLTOALL:
      for (const std::int32_t rank : call_.members) values.push_back(value_of(rank));
      break;
    case RODA_REDUCESCATTER: {
      const auto place = std::ranges::find(call_.members, rank_) - call_.members.begin();
      const auto rows =
          engine::reducescatter_rows(call_.rows, static_cast<int>(call_.members.size()), static_cast<int>(place));
      values.assign(static_cast<std::size_t>(rows), sum);
      break;
    }
    default:
      values.assign(static_cast<std::size_t>(call_.rows), sum);
  }
  return values;
}

std::string Flight::check(std::span<const engine::Operation> operations) const {
  if (call_.odd >= 0) return call_.name + " has a result, though rank " + std::to_string(call_.odd) + " disagrees";
  if (call_.collective == RODA_BARRIER || call_.collective == RODA_JOIN) return "";
  const std::vector<std::int64_t> expected = this->expected();
  for (std::size_t t = 0; t < operations.size(); ++t) {
    const engine::Operation& op = operations[t];
    const bool is_given = op.result != nullptr;  // by the engine
    const auto* got = static_cast<const std::int64_t*>(is_given ? op.result->data() : op.output);
    const std::size_t count = is_given ? static_cast<std::size_t>(op.result_shape.at(0)) : outputs_[t].size();
    if (count != expected.size()) {
      return roda::format("{} has {} rows in place of {}", op.request.name, count, expected.size());
    }
    for (std::size_t i = 0; i < count; ++i) {
      const std::int64_t right = expected[i] * static_cast<std::int64_t>(t + 1);
      if (got[i] == right) continue;
      return roda::format("{}[{}] is {} in place of {}", op.request.name, i, got[i], right);
    }
  }
  return "";
}

}  // namespace roda::seeds

#include "algorithms/schedule/verifier.h"

#include <algorithm>
#include <map>
#include <string>
#include <tuple>

#include "algorithms/schedule/verify/run.h"

namespace roda::schedule {
namespace {

using verifier::length_of;

using Complaint = std::optional<std::string>;

Complaint check_shape(const Schedule& schedule, const Schedule& first, int rank, int size) {
  if (schedule.rank != rank || schedule.size != size) return "is made for another rank or size";
  if (schedule.collective != first.collective || schedule.root != first.root || schedule.chunks != first.chunks ||
      schedule.in_place != first.in_place || schedule.reads_linger != first.reads_linger) {
    return "collective, root, chunks, in_place or reads_linger differ from rank 0's";
  }
  if (schedule.root < 0 || schedule.root >= size) return "root out of range";
  if (schedule.chunks < 1 || schedule.scratch_chunks < 0) return "number of chunks out of range";
  const roda_collective_entry& data = entry_of(schedule.collective);
  const bool chunk_per_rank = data.input == RODA_ALL_PARTS || data.output == RODA_ALL_PARTS;
  if (chunk_per_rank && schedule.chunks != size) return "needs one chunk per rank";
  if (!schedule.scratch.empty()) return std::nullopt;
  if (is_between_pairs(schedule.collective) && schedule.scratch_chunks != 0) {
    return std::string(collective_name(schedule.collective)) + " has no scratch";
  }
  return std::nullopt;
}

Complaint check_range(const Range& range, const Schedule& owner) {
  if (range.space > Space::kProducts) return "unknown space";
  if (range.count < 0 || range.first < 0 || range.first > chunk_count(owner, range.space) - range.count) {
    return to_text(range) + " is out of range: there are " + std::to_string(chunk_count(owner, range.space)) +
           " chunks";
  }
  return std::nullopt;
}

Complaint check_lengths(const Range& a, const Schedule& a_owner, const Range& b, const Schedule& b_owner) {
  if (a.count != b.count) return to_text(a) + " and " + to_text(b) + " differ in length";
  for (int i = 0; i < a.count; ++i) {
    if (length_of(a_owner, a.space, a.first + i) != length_of(b_owner, b.space, b.first + i)) {
      return to_text(a) + " and " + to_text(b) + " may differ in length";
    }
  }
  return std::nullopt;
}

bool is_adasum(StepKind kind) { return kind == StepKind::kDots || kind == StepKind::kWeigh; }

Complaint check_peer(const Step& step, const Schedule& schedule) {
  if (is_local(step.kind)) return std::nullopt;
  if (is_signal(step.kind)) {
    if (step.signal < 0 || step.signal >= kMaxSignals) return "signal out of range";
    if (step.peer == kAllPeers) return std::nullopt;
  }
  if (step.peer < 0 || step.peer >= schedule.size) return "peer out of range";
  if (step.peer == schedule.rank) return "peer is the rank itself";
  return std::nullopt;
}

// Which of the two operands the kind has.
bool has_src(StepKind kind) { return kind != StepKind::kRecv && !is_signal(kind); }
bool has_dst(StepKind kind) { return kind != StepKind::kSend && !is_signal(kind); }

// Of the vectors whose products are taken, or which are weighed.
Complaint check_operands(const Step& step, const Schedule& own) {
  if (Complaint complaint = check_range(step.other, own)) return complaint;
  if (step.src.space == Space::kProducts || step.other.space == Space::kProducts || step.src.count == 0) {
    return "has no data";
  }
  if (Complaint complaint = check_lengths(step.src, own, step.other, own)) return complaint;
  if (overlap(step.src, step.other)) return "both operands overlap";
  if (step.kind == StepKind::kDots) {
    const bool is_chunk = step.dst.space == Space::kProducts && step.dst.count == 1;
    return is_chunk ? Complaint() : "products are a chunk of Products";
  }
  for (const Range& operand : {step.src, step.other}) {
    if (overlap(step.dst, operand) && !(step.dst == operand)) return "source and destination overlap";
  }
  if (own.product_chunks < 1) return "weighs without products";
  return check_lengths(step.dst, own, step.src, own);
}

Complaint check_ranges(const Step& step, const std::vector<Schedule>& ranks, int rank) {
  const Schedule& own = ranks[static_cast<std::size_t>(rank)];
  const Schedule& peer =
      !is_local(step.kind) && !is_signal(step.kind) ? ranks[static_cast<std::size_t>(step.peer)] : own;
  const bool src_remote = reads_peer(step.kind);
  const bool dst_remote = step.kind == StepKind::kPut;
  const Schedule& src_owner = src_remote ? peer : own;
  const Schedule& dst_owner = dst_remote ? peer : own;
  if (!has_src(step.kind) && step.src.count != 0) return "has a source that it does not use";
  if (!has_dst(step.kind) && step.dst.count != 0) return "has a destination that it does not use";
  if (Complaint complaint = check_range(step.src, src_owner)) return complaint;
  if (Complaint complaint = check_range(step.dst, dst_owner)) return complaint;
  if (step.dst.count > 0 && step.dst.space == Space::kInput) return "writes Input, which is read-only";
  if ((src_remote && step.src.space == Space::kProducts) || (dst_remote && step.dst.space == Space::kProducts)) {
    return "reaches into a peer's products";
  }
  const bool is_remote_scratch =
      (src_remote && step.src.space == Space::kScratch) || (dst_remote && step.dst.space == Space::kScratch);
  if (is_remote_scratch && own.scratch.empty()) {
    return "reaches into a peer's scratch, which has no window";
  }
  if (!has_src(step.kind) || !has_dst(step.kind)) return std::nullopt;
  if (step.dst.count == 0 && step.kind != StepKind::kRecvReduce) return "moves nothing";
  if (is_adasum(step.kind)) return check_operands(step, own);
  const bool local = !src_remote && !dst_remote;
  if (local && overlap(step.src, step.dst) && !(step.kind == StepKind::kRecvReduce && step.src == step.dst)) {
    return "source and destination overlap";
  }
  return check_lengths(step.dst, dst_owner, step.src, src_owner);
}

// Who uses a chunk or a signal first, by lane: nobody else may.
class LaneOwners {
 public:
  Complaint claim_step(const Step& step, int rank, int lane) {
    if (is_signal(step.kind)) return claim({-1, 0, step.signal}, lane, "signal " + std::to_string(step.signal));
    const bool src_remote = reads_peer(step.kind);
    if (Complaint complaint = claim_range(step.src, src_remote ? step.peer : rank, lane)) return complaint;
    if (Complaint complaint = claim_range(step.other, rank, lane)) return complaint;
    return claim_range(step.dst, step.kind == StepKind::kPut ? step.peer : rank, lane);
  }

 private:
  using Key = std::tuple<int, int, int>;  // rank, space, chunk; rank -1: a signal

  Complaint claim_range(const Range& range, int rank, int lane) {
    for (int i = 0; i < range.count; ++i) {
      const int chunk = range.first + i;
      if (Complaint complaint = claim({rank, static_cast<int>(range.space), chunk}, lane, to_text(range)))
        return complaint;
    }
    return std::nullopt;
  }

  Complaint claim(const Key& key, int lane, const std::string& what) {
    const auto [entry, added] = owners_.emplace(key, lane);
    if (added || entry->second == lane) return std::nullopt;
    return "touches " + what + ", which belongs to lane " + std::to_string(entry->second);
  }

  std::map<Key, int> owners_;
};

Complaint check_step(const Step& step, const std::vector<Schedule>& ranks, int rank) {
  if (step.kind == StepKind::kCall) return "is a call: the schedule is not expanded";
  if (step.kind > StepKind::kCall) return "unknown kind of step";
  if (Complaint complaint = check_peer(step, ranks[static_cast<std::size_t>(rank)])) return complaint;
  return check_ranges(step, ranks, rank);
}

// Calls f(rank, lane, index, step) until it complains; puts the complaint in its place.
template <typename F>
std::optional<Violation> for_each_step(const std::vector<Schedule>& ranks, F f) {
  for (const Schedule& schedule : ranks) {
    for (std::size_t lane = 0; lane < schedule.lanes.size(); ++lane) {
      const std::vector<Step>& steps = schedule.lanes[lane].steps;
      for (std::size_t index = 0; index < steps.size(); ++index) {
        if (Complaint complaint = f(schedule.rank, static_cast<int>(lane), steps[index])) {
          return Violation{schedule.algorithm, schedule.rank, static_cast<int>(lane), static_cast<int>(index),
                           to_text(steps[index]) + ": " + *complaint};
        }
      }
    }
  }
  return std::nullopt;
}

// What can be seen without executing: shapes, ranges, peers, signals, lanes. After it, every index in the schedules is
// valid.
std::optional<Violation> check(const std::vector<Schedule>& ranks) {
  if (ranks.empty()) return Violation{"?", 0, -1, -1, "there are no ranks"};
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
    const int number = static_cast<int>(rank);
    if (Complaint complaint = check_shape(ranks[rank], ranks[0], number, static_cast<int>(ranks.size()))) {
      return Violation{ranks[rank].algorithm, number, -1, -1, *complaint};
    }
  }
  auto violation = for_each_step(ranks, [&](int rank, int, const Step& step) { return check_step(step, ranks, rank); });
  const bool uses_lanes = std::any_of(ranks.begin(), ranks.end(), [](const Schedule& s) { return s.lanes.size() > 1; });
  if (violation || !uses_lanes) return violation;
  LaneOwners owners;
  return for_each_step(ranks,
                       [&](int rank, int lane, const Step& step) { return owners.claim_step(step, rank, lane); });
}

// Name, collective and needs are those of the schedules that it makes.
std::optional<Violation> check_description(const Algorithm& algorithm, const std::vector<Schedule>& ranks) {
  std::uint32_t used = 0;
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
    const Schedule& schedule = ranks[rank];
    if (schedule.algorithm != algorithm.name || schedule.collective != algorithm.collective) {
      return Violation{algorithm.name, static_cast<int>(rank), -1, -1,
                       "makes a schedule of another name or collective"};
    }
    used |= needs_of(schedule);
  }
  auto violation = for_each_step(ranks, [&](int, int, const Step& step) -> Complaint {
    if ((needs_of(step.kind) & ~algorithm.needs) == 0) return std::nullopt;
    return "is not covered by the algorithm's needs";
  });
  if (violation || used == algorithm.needs || ranks.size() <= 1) return violation;
  return Violation{algorithm.name, 0, -1, -1, "claims needs that no step has"};
}

}  // namespace

std::string Violation::to_text() const {
  std::string text = algorithm + ": rank " + std::to_string(rank);
  if (lane >= 0) text += ", lane " + std::to_string(lane);
  if (step >= 0) text += ", step " + std::to_string(step);
  return text + ": " + message;
}

std::optional<Violation> verify(const std::vector<Schedule>& ranks) {
  if (std::optional<Violation> violation = check(ranks)) return violation;
  return verifier::Run(ranks).run();
}

std::optional<Violation> verify(const Algorithm& algorithm, int size, int root) {
  std::vector<Schedule> ranks;
  for (int rank = 0; rank < size; ++rank) ranks.push_back(algorithm.make(rank, size, root));
  if (std::optional<Violation> violation = check_description(algorithm, ranks)) return violation;
  return verify(ranks);
}

}  // namespace roda::schedule

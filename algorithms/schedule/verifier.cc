#include "algorithms/schedule/verifier.h"

#include <algorithm>
#include <map>
#include <tuple>

#include "algorithms/schedule/verify/run.h"

namespace roda::schedule {
namespace {

using verifier::complain;
using verifier::length_of;

void check_shape(const Schedule& schedule, const Schedule& first, int rank, int size) {
  if (schedule.rank != rank || schedule.size != size) complain("is made for another rank or size");
  if (schedule.collective != first.collective || schedule.root != first.root || schedule.chunks != first.chunks ||
      schedule.in_place != first.in_place || schedule.reads_linger != first.reads_linger) {
    complain("collective, root, chunks, in_place or reads_linger differ from rank 0's");
  }
  if (schedule.root < 0 || schedule.root >= size) complain("root out of range");
  if (schedule.chunks < 1 || schedule.scratch_chunks < 0) complain("number of chunks out of range");
  const roda_collective_entry& data = entry_of(schedule.collective);
  const bool chunk_per_rank = data.input == RODA_ALL_PARTS || data.output == RODA_ALL_PARTS;
  if (chunk_per_rank && schedule.chunks != size) complain("needs one chunk per rank");
  if (schedule.scratch.empty() && is_between_pairs(schedule.collective) && schedule.scratch_chunks != 0) {
    complain(std::string(collective_name(schedule.collective)) + " has no scratch");
  }
}

void check_range(const Range& range, const Schedule& owner) {
  if (range.space > Space::kProducts) complain("unknown space");
  if (range.count < 0 || range.first < 0 || range.first > chunk_count(owner, range.space) - range.count) {
    complain(to_text(range) + " is out of range: there are " + std::to_string(chunk_count(owner, range.space)) +
             " chunks");
  }
}

void check_lengths(const Range& a, const Schedule& a_owner, const Range& b, const Schedule& b_owner) {
  if (a.count != b.count) complain(to_text(a) + " and " + to_text(b) + " differ in length");
  for (int i = 0; i < a.count; ++i) {
    if (length_of(a_owner, a.space, a.first + i) != length_of(b_owner, b.space, b.first + i)) {
      complain(to_text(a) + " and " + to_text(b) + " may differ in length");
    }
  }
}

bool is_adasum(StepKind kind) { return kind == StepKind::kDots || kind == StepKind::kWeigh; }

void check_peer(const Step& step, const Schedule& schedule) {
  if (is_local(step.kind)) return;
  if (is_signal(step.kind)) {
    if (step.signal < 0 || step.signal >= kMaxSignals) complain("signal out of range");
    if (step.peer == kAllPeers) return;
  }
  if (step.peer < 0 || step.peer >= schedule.size) complain("peer out of range");
  if (step.peer == schedule.rank) complain("peer is the rank itself");
}

// Which of the two operands the kind has.
bool has_src(StepKind kind) { return kind != StepKind::kRecv && !is_signal(kind); }
bool has_dst(StepKind kind) { return kind != StepKind::kSend && !is_signal(kind); }

// Of the vectors whose products are taken, or which are weighed.
void check_operands(const Step& step, const Schedule& own) {
  check_range(step.other, own);
  if (step.src.space == Space::kProducts || step.other.space == Space::kProducts || step.src.count == 0) {
    complain("has no data");
  }
  check_lengths(step.src, own, step.other, own);
  if (overlap(step.src, step.other)) complain("both operands overlap");
  if (step.kind == StepKind::kDots) {
    const bool is_chunk = step.dst.space == Space::kProducts && step.dst.count == 1;
    if (!is_chunk) complain("products are a chunk of Products");
    return;
  }
  for (const Range& operand : {step.src, step.other}) {
    if (overlap(step.dst, operand) && !(step.dst == operand)) complain("source and destination overlap");
  }
  if (own.product_chunks < 1) complain("weighs without products");
  check_lengths(step.dst, own, step.src, own);
}

void check_ranges(const Step& step, const std::vector<Schedule>& ranks, int rank) {
  const Schedule& own = ranks[static_cast<std::size_t>(rank)];
  const Schedule& peer =
      !is_local(step.kind) && !is_signal(step.kind) ? ranks[static_cast<std::size_t>(step.peer)] : own;
  const bool src_remote = reads_peer(step.kind);
  const bool dst_remote = step.kind == StepKind::kPut;
  const Schedule& src_owner = src_remote ? peer : own;
  const Schedule& dst_owner = dst_remote ? peer : own;
  if (!has_src(step.kind) && step.src.count != 0) complain("has a source that it does not use");
  if (!has_dst(step.kind) && step.dst.count != 0) complain("has a destination that it does not use");
  check_range(step.src, src_owner);
  check_range(step.dst, dst_owner);
  if (step.dst.count > 0 && step.dst.space == Space::kInput) complain("writes Input, which is read-only");
  if ((src_remote && step.src.space == Space::kProducts) || (dst_remote && step.dst.space == Space::kProducts)) {
    complain("reaches into a peer's products");
  }
  const bool is_remote_scratch =
      (src_remote && step.src.space == Space::kScratch) || (dst_remote && step.dst.space == Space::kScratch);
  if (is_remote_scratch && own.scratch.empty()) complain("reaches into a peer's scratch, which has no window");
  if (!has_src(step.kind) || !has_dst(step.kind)) return;
  if (step.dst.count == 0 && step.kind != StepKind::kRecvReduce) complain("moves nothing");
  if (is_adasum(step.kind)) return check_operands(step, own);
  const bool local = !src_remote && !dst_remote;
  if (local && overlap(step.src, step.dst) && !(step.kind == StepKind::kRecvReduce && step.src == step.dst)) {
    complain("source and destination overlap");
  }
  check_lengths(step.dst, dst_owner, step.src, src_owner);
}

// Who uses a chunk or a signal first, by lane: nobody else may.
class LaneOwners {
 public:
  void claim_step(const Step& step, int rank, int lane) {
    if (is_signal(step.kind)) return claim({-1, 0, step.signal}, lane, "signal " + std::to_string(step.signal));
    claim_range(step.src, reads_peer(step.kind) ? step.peer : rank, lane);
    claim_range(step.other, rank, lane);
    claim_range(step.dst, step.kind == StepKind::kPut ? step.peer : rank, lane);
  }

 private:
  using Key = std::tuple<int, int, int>;  // rank, space, chunk; rank -1: a signal

  void claim_range(const Range& range, int rank, int lane) {
    for (int i = 0; i < range.count; ++i) {
      claim({rank, static_cast<int>(range.space), range.first + i}, lane, to_text(range));
    }
  }

  void claim(const Key& key, int lane, const std::string& what) {
    const auto [entry, added] = owners_.emplace(key, lane);
    if (!added && entry->second != lane) {
      complain("touches " + what + ", which belongs to lane " + std::to_string(entry->second));
    }
  }

  std::map<Key, int> owners_;
};

void check_step(const Step& step, const std::vector<Schedule>& ranks, int rank) {
  if (step.kind == StepKind::kCall) complain("is a call: the schedule is not expanded");
  if (step.kind > StepKind::kCall) complain("unknown kind of step");
  check_peer(step, ranks[static_cast<std::size_t>(rank)]);
  check_ranges(step, ranks, rank);
}

// Calls f(rank, lane, step) for each; puts a complaint in its place.
void for_each_step(const std::vector<Schedule>& ranks, auto f) {
  for (const Schedule& schedule : ranks) {
    for (std::size_t lane = 0; lane < schedule.lanes.size(); ++lane) {
      const std::vector<Step>& steps = schedule.lanes[lane].steps;
      for (std::size_t index = 0; index < steps.size(); ++index) {
        verifier::in_step(schedule, static_cast<int>(lane), static_cast<int>(index),
                          [&] { f(schedule.rank, static_cast<int>(lane), steps[index]); });
      }
    }
  }
}

// What can be seen without executing: shapes, ranges, peers, signals, lanes. After it, every index in the schedules is
// valid.
void check(const std::vector<Schedule>& ranks) {
  if (ranks.empty()) throw Violation{"?", 0, -1, -1, "there are no ranks"};
  const int size = static_cast<int>(ranks.size());
  for (int rank = 0; rank < size; ++rank) {
    const Schedule& schedule = ranks[static_cast<std::size_t>(rank)];
    try {
      check_shape(schedule, ranks[0], rank, size);
    } catch (const verifier::Complaint& complaint) {
      throw Violation{schedule.algorithm, rank, -1, -1, complaint.text};
    }
  }
  for_each_step(ranks, [&](int rank, int, const Step& step) { check_step(step, ranks, rank); });
  if (std::ranges::none_of(ranks, [](const Schedule& s) { return s.lanes.size() > 1; })) return;
  LaneOwners owners;
  for_each_step(ranks, [&](int rank, int lane, const Step& step) { owners.claim_step(step, rank, lane); });
}

}  // namespace

std::string Violation::to_text() const {
  std::string text = algorithm + ": rank " + std::to_string(rank);
  if (lane >= 0) text += ", lane " + std::to_string(lane);
  if (step >= 0) text += ", step " + std::to_string(step);
  return text + ": " + message;
}

std::optional<Violation> verify(const std::vector<Schedule>& ranks) {
  try {
    check(ranks);
    verifier::Run(ranks).run();
  } catch (const Violation& violation) {
    return violation;
  }
  return std::nullopt;
}

}  // namespace roda::schedule

#include "algorithms/schedule/verifier.h"

#include <algorithm>
#include <memory>
#include <numeric>
#include <utility>

#include "algorithms/index.h"
#include "algorithms/schedule/verify/proof.h"

namespace roda::schedule {
namespace {

using verifier::Blocks;
using verifier::complain;
using verifier::Complaint;
using verifier::length_of;
using verifier::Proof;
using verifier::Setting;

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
  if (is_between_pairs(schedule.collective) && schedule.scratch_chunks != 0) {
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

// What has a format is sent as bytes that stand for numbers, or about to be.
void check_format(const Step& step, const Schedule& schedule) {
  if (step.kind == StepKind::kRound && step.format == RODA_WIRE_NONE) complain("rounds to no format");
  if (step.format == RODA_WIRE_NONE) return;
  if (step.format < 0 || step.format >= RODA_WIRE_FORMAT_COUNT) complain("unknown format");
  if (schedule.collective != Collective::kAllreduce) complain("only an allreduce's messages have formats");
  if (step.kind != StepKind::kRound && needs_of(step.kind) != kNeedsMessages)
    complain("is no message that has a format");
}

// Which of the two operands the kind has.
bool has_src(StepKind kind) { return kind != StepKind::kRecv && kind != StepKind::kRound && !is_signal(kind); }
bool has_dst(StepKind kind) { return kind != StepKind::kSend && !is_signal(kind); }

// Checks the two operands of a step that takes products of two vectors, or weighs them.
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
  if (is_remote_scratch) complain("reaches into a peer's scratch, which has no window");
  if (step.kind == StepKind::kRound && step.dst.count == 0) complain("rounds nothing");
  if (!has_src(step.kind) || !has_dst(step.kind)) return;
  if (step.dst.count == 0 && step.kind != StepKind::kRecvReduce) complain("moves nothing");
  if (is_adasum(step.kind)) return check_operands(step, own);
  const bool local = !src_remote && !dst_remote;
  if (local && overlap(step.src, step.dst) && !(step.kind == StepKind::kRecvReduce && step.src == step.dst)) {
    complain("source and destination overlap");
  }
  check_lengths(step.dst, dst_owner, step.src, src_owner);
}

void check_step(const Step& step, const std::vector<Schedule>& ranks, int rank) {
  if (step.kind == StepKind::kCall) complain("is a call, which only composed schedules make");
  if (step.kind > StepKind::kCall) complain("unknown kind of step");
  check_peer(step, ranks[static_cast<std::size_t>(rank)]);
  check_format(step, ranks[static_cast<std::size_t>(rank)]);
  check_ranges(step, ranks, rank);
}

// Calls f(rank, step) for each; puts a complaint in its place.
void for_each_step(const std::vector<Schedule>& ranks, auto f) {
  for (const Schedule& schedule : ranks) {
    for (std::size_t lane = 0; lane < schedule.lanes.size(); ++lane) {
      int index = 0;
      for (const Step& step : schedule.lanes[lane].steps) {
        try {
          f(schedule.rank, step);
        } catch (const Complaint& complaint) {
          throw Violation{schedule.algorithm, schedule.rank, static_cast<int>(lane), index,
                          to_text(step) + ": " + complaint.text};
        }
        ++index;
      }
    }
  }
}

// Finds the faults that show without executing: of shapes, ranges, peers, signals. Afterwards every index in the
// schedules is valid.
void check(const std::vector<Schedule>& ranks) {
  if (ranks.empty()) throw Violation{"?", 0, -1, -1, "there are no ranks"};
  const int size = static_cast<int>(ranks.size());
  for (int rank = 0; rank < size; ++rank) {
    const Schedule& schedule = ranks[static_cast<std::size_t>(rank)];
    try {
      check_shape(schedule, ranks[0], rank, size);
    } catch (const Complaint& complaint) {
      throw Violation{schedule.algorithm, rank, -1, -1, complaint.text};
    }
  }
  for_each_step(ranks, [&](int rank, const Step& step) { check_step(step, ranks, rank); });
}

// One call among all ranks.
std::vector<Schedule> around(const std::vector<Program>& programs) {
  std::vector<Schedule> ranks;
  std::vector<std::int32_t> numbers(programs.size());
  std::iota(numbers.begin(), numbers.end(), 0);
  const auto members = std::make_shared<const std::vector<std::int32_t>>(numbers);
  for (std::int32_t& number : numbers) ++number;
  for (const Program& program : programs) {
    const roda_collective_entry& data = entry_of(program.collective);
    Schedule& made = ranks.emplace_back();
    made.algorithm = program.algorithm;
    made.collective = program.collective;
    made.rank = program.rank;
    made.size = program.size;
    made.root = program.root;
    made.chunks = program.chunks;
    made.in_place = false;
    made.stages = 1;
    Call call{program.collective, program.algorithm, 0, members, program.rank, program.root, {}, {}, 1};
    if (data.input == RODA_ALL_PARTS) call.src_ends = numbers;
    if (data.output == RODA_ALL_PARTS) call.dst_ends = numbers;
    made.calls.push_back(std::move(call));
    const Range output{Space::kOutput, 0, chunk_count(made, Space::kOutput)};
    const bool has_input =
        !is(program.collective, RODA_ROOTED) || is_for_root(program.collective) || program.rank == program.root;
    const Range input{Space::kInput, 0, chunk_count(made, Space::kInput)};
    made.lanes.push_back({{{StepKind::kCall, 0, has_input ? input : output, output}}});
  }
  return ranks;
}

// How the executor may run it; first as the schedule means it, with what peers touch where the user has it.
std::vector<std::vector<Setting>> settings_of(const std::vector<Program>& ranks) {
  const Program& first = ranks.front();
  const bool is_moved_in =
      !first.in_place || entry_of(first.collective).input == RODA_ALL_PARTS || is_for_root(first.collective);
  const Setting apart{false, Blocks::kOwn}, in_output{true, Blocks::kOwn}, lent{true, Blocks::kUser};
  std::vector<std::vector<Setting>> all{{{!is_moved_in, Blocks::kUser}}};
  if (first.one_sided() || !is_moved_in) all.push_back({apart});
  if (entry_of(first.collective).input != RODA_ALL_PARTS && (is_moved_in || first.one_sided()))
    all.push_back({in_output});
  if (!takes_buckets(first)) return all;
  all.push_back({{false, Blocks::kBucket}});
  const bool is_lent =
      first.in_place && std::ranges::all_of(ranks, [](const Program& p) { return p.late_readers.empty(); });
  all.push_back(is_lent ? std::vector{apart, lent, in_output} : std::vector{apart, in_output});
  return all;
}

void prove(const std::vector<Program>& ranks, int* roundings) {
  const std::vector<Schedule> schedules = around(ranks);
  for (std::vector<Setting>& settings : settings_of(ranks)) {
    Proof proof(
        schedules, [&](const Call&) -> const std::vector<Program>& { return ranks; }, std::move(settings));
    proof.run();
    if (roundings != nullptr) *roundings = proof.roundings();
  }
}

}  // namespace

std::string Violation::to_text() const {
  std::string text = algorithm + ": rank " + std::to_string(rank);
  if (lane >= 0) text += ", lane " + std::to_string(lane);
  if (step >= 0) text += ", step " + std::to_string(step);
  return text + ": " + message;
}

std::optional<Violation> verify(const std::vector<Program>& ranks, int* roundings) {
  try {
    prove(ranks, roundings);
  } catch (const Violation& violation) {
    return violation;
  }
  return std::nullopt;
}

std::optional<Violation> verify(const std::vector<Schedule>& ranks, int* roundings) {
  try {
    check(ranks);
    const Compiled made = compile(ranks, needs_of(ranks));
    if (made.wrong) return Violation{ranks.front().algorithm, 0, -1, -1, *made.wrong};
    prove(made.ranks, roundings);
  } catch (const Violation& violation) {
    return violation;
  }
  return std::nullopt;
}

}  // namespace roda::schedule

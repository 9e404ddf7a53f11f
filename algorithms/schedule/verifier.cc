#include "algorithms/schedule/verifier.h"

#include <algorithm>
#include <map>
#include <memory>
#include <utility>

#include "algorithms/index.h"
#include "algorithms/schedule/format.h"
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
  const std::int32_t chunks = range.space == Space::kScratch    ? owner.scratch_chunks
                              : range.space == Space::kProducts ? owner.product_chunks
                                                                : chunk_count(owner, range.space);
  if (range.count < 0 || range.first < 0 || range.first > chunks - range.count) {
    complain(to_text(range) + " is out of range: there are " + std::to_string(chunks) + " chunks");
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
  if (!can_have_format(schedule.collective)) {
    complain(std::string("messages of ") + collective_name(schedule.collective) + " have no formats");
  }
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
  if (step.kind > StepKind::kRound) complain("unknown kind of step");
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

// Every member of a group makes the same calls in the same order.
void check_order(const std::vector<const Program*>& ranks) {
  const auto are_alike = [](const Call* a, const Call* b) {
    const Program &one = *a->program, &other = *b->program;
    return one.collective == other.collective && one.algorithm == other.algorithm && a->stage == b->stage &&
           one.root == other.root;
  };
  std::map<std::vector<std::int32_t>, std::pair<int, std::vector<const Call*>>> known;  // of the first, by group
  for (const Program* rank : ranks) {
    std::map<const std::vector<std::int32_t>*, std::vector<const Call*>> own;
    for (const Op& op : rank->lanes.front().ops) {
      if (op.kind != OpKind::kCall) continue;
      own[rank->calls[op.source].members.get()].push_back(&rank->calls[op.source]);
    }
    for (const auto& [members, calls] : own) {
      const auto [first, is_new] = known.try_emplace(*members, rank->rank, calls);
      if (is_new || std::ranges::equal(calls, first->second.second, are_alike)) continue;
      throw Violation{rank->algorithm, rank->rank, -1, -1,
                      "calls in another order than rank " + std::to_string(first->second.first) + " of the same group"};
    }
  }
}

// An algorithm of messages for every size, in the place of a library's own.
std::shared_ptr<const Program> stand_in(const Program& native) {
  const Algorithm* found = nullptr;
  for (const char* name : {"ring", "pairwise", "binomial", "dissemination", "vector_halving"}) {
    if (found == nullptr) found = find_algorithm(native.collective, name);
  }
  auto made = std::make_shared<Program>();
  const auto wrong = compile(*found, native.rank, native.size, native.root, made.get());
  if (wrong) throw Violation{native.algorithm, native.rank, -1, -1, *wrong};
  return made;
}

// The composition, with something to play in each native call.
std::shared_ptr<const Program> playable(std::shared_ptr<const Program> program) {
  const auto is_native = [](const Call& call) { return call.program->is_native; };
  if (std::ranges::none_of(program->calls, is_native)) return program;
  auto made = std::make_shared<Program>(*program);
  for (Call& call : made->calls) {
    if (is_native(call)) call.program = stand_in(*call.program);
  }
  return made;
}

// How the executor may run it; first as the schedule means it, with what peers touch where the user has it.
std::vector<std::vector<Setting>> settings_of(const std::vector<const Program*>& ranks) {
  const Program& first = *ranks.front();
  if (first.is_composed() && is_cut(first.collective)) return {{{false}}, {{true}}};
  if (first.is_composed()) return {{{false}}};
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
      first.in_place && std::ranges::all_of(ranks, [](const Program* p) { return p->late_readers.empty(); });
  all.push_back(is_lent ? std::vector{apart, lent, in_output} : std::vector{apart, in_output});
  return all;
}

// The verifier looks at programs while they live.
std::shared_ptr<const Program> borrowed(const Program* program) { return {std::shared_ptr<const Program>(), program}; }

void prove(const std::vector<const Program*>& ranks, int* roundings) {
  std::vector<std::shared_ptr<const Program>> held;
  std::vector<const Program*> composed;
  for (const Program* program : ranks) {
    std::shared_ptr<const Program> whole = borrowed(program);
    if (!program->is_composed()) whole = std::make_shared<const Program>(around(std::move(whole)));
    held.push_back(playable(std::move(whole)));
    composed.push_back(held.back().get());
  }
  check_order(composed);
  for (std::vector<Setting>& settings : settings_of(ranks)) {
    Proof proof(composed, std::move(settings));
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

std::optional<Violation> verify(const std::vector<const Program*>& ranks, int* roundings) {
  try {
    prove(ranks, roundings);
  } catch (const Violation& violation) {
    return violation;
  }
  return std::nullopt;
}

std::optional<Violation> verify(const std::vector<Program>& ranks, int* roundings) {
  std::vector<const Program*> pointers;
  for (const Program& program : ranks) pointers.push_back(&program);
  return verify(pointers, roundings);
}

std::optional<Violation> verify(const std::vector<Schedule>& ranks, int* roundings) {
  try {
    check(ranks);
  } catch (const Violation& violation) {
    return violation;
  }
  const Compiled made = compile(ranks, needs_of(ranks));
  if (made.wrong) return Violation{ranks.front().algorithm, 0, -1, -1, *made.wrong};
  return verify(made.ranks, roundings);
}

}  // namespace roda::schedule

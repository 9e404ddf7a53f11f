// Words to write a schedule in: ranges, steps, and the frame that they go into. For files that define algorithms.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <vector>

#include "algorithms/schedule/schedule.h"

namespace roda::schedule {

inline Range input(int first, int count = 1) { return {Space::kInput, first, count}; }
inline Range output(int first, int count = 1) { return {Space::kOutput, first, count}; }
inline Range scratch(int first, int count = 1) { return {Space::kScratch, first, count}; }
inline Range products(int chunk) { return {Space::kProducts, chunk, 1}; }
inline Range nothing() { return {}; }

namespace step {

inline Step send(int to, Range src) { return {StepKind::kSend, to, src, nothing()}; }
inline Step recv(int from, Range dst) { return {StepKind::kRecv, from, nothing(), dst}; }
inline Step recv_reduce(int from, Range dst, Range src) { return {StepKind::kRecvReduce, from, src, dst}; }
inline Step recv_reduce(int from, Range both) { return recv_reduce(from, both, both); }
inline Step copy(Range dst, Range src) { return {StepKind::kCopy, 0, src, dst}; }
inline Step reduce(Range dst, Range src) { return {StepKind::kReduce, 0, src, dst}; }
inline Step get(int from, Range dst, Range src) { return {StepKind::kGet, from, src, dst}; }
inline Step get_reduce(int from, Range dst, Range src) { return {StepKind::kGetReduce, from, src, dst}; }
inline Step put(int to, Range dst, Range src) { return {StepKind::kPut, to, src, dst}; }
inline Step dots(Range dst, Range first, Range second) { return {StepKind::kDots, 0, first, dst, 0, second}; }
inline Step round(Range both, std::int32_t format, std::int32_t lost_of = 1) {
  return {.kind = StepKind::kRound, .dst = both, .format = format, .lost_of = lost_of};
}
inline Step weigh(Range dst, Range first, Range second) { return {StepKind::kWeigh, 0, first, dst, 0, second}; }
inline Step signal(int to, int index = 0) { return {StepKind::kSignal, to, nothing(), nothing(), index}; }
inline Step wait(int from, int index = 0) { return {StepKind::kWait, from, nothing(), nothing(), index}; }

}  // namespace step

// A schedule with everything set but the steps.
inline Schedule begin(const char* algorithm, Collective collective, int rank, int size, int chunks, int lanes = 1) {
  Schedule made{{algorithm, collective, rank, size, 0, chunks}};
  made.lanes.resize(static_cast<std::size_t>(lanes));
  return made;
}

// Steps at the end of the only lane.
template <typename... Steps>
void add(Schedule& s, const Steps&... steps) {
  (s.lanes[0].steps.push_back(steps), ...);
}

// Every peer has come as far as this rank: signals all, then waits for all. Nothing where there are no peers.
inline void add_handshake(Schedule& s) {
  if (s.size > 1) add(s, step::signal(kAllPeers), step::wait(kAllPeers));
}

// Reads from each peer in turn as soon as it has signalled: `read(peer)` makes the step. In the end all have read.
// Everybody starts at another peer, so that no memory is read by all at once.
void add_reads_of_all(Schedule& s, auto&& read) {
  for (int distance = 1; distance < s.size; ++distance) {
    const int peer = (s.rank + distance) % s.size;
    add(s, step::wait(peer), read(peer));
  }
  add_handshake(s);
}

// dst = src of rank 0, and then of every other rank in order, added to it: the peers' out of their memory.
inline void add_ordered_sum(Schedule& s, Range dst, Range src) {
  for (int from = 0; from < s.size; ++from) {
    if (from == s.rank) {
      add(s, from == 0 ? step::copy(dst, src) : step::reduce(dst, src));
    } else {
      add(s, from == 0 ? step::get(from, dst, src) : step::get_reduce(from, dst, src));
    }
  }
}

inline bool any_size(int size) { return size >= 1; }
inline constexpr std::uint32_t kOneSided = kNeedsSignals | kNeedsGet;

// One algorithm of a collective; see Algorithm. `write` completes a schedule of one chunk, one lane and no steps.
struct Row {
  const char* name;
  const char* summary;
  std::uint32_t needs;
  void (*write)(Schedule& s, int rank, int size);
  bool in_rank_order = false;
  bool (*accepts)(int size) = any_size;
};
std::vector<Algorithm> list_of(Collective collective, std::initializer_list<Row> rows);

// What there is for each collective: algorithms/collectives, in the file of its name.
std::vector<Algorithm> adasum_algorithms();
std::vector<Algorithm> allgather_algorithms();
std::vector<Algorithm> allreduce_algorithms();
std::vector<Algorithm> alltoall_algorithms();
std::vector<Algorithm> barrier_algorithms();
std::vector<Algorithm> broadcast_algorithms();
std::vector<Algorithm> reduce_algorithms();
std::vector<Algorithm> reduce_scatter_algorithms();
inline constexpr std::vector<Algorithm> (*kLists[])() = {
    adasum_algorithms,  allgather_algorithms, allreduce_algorithms, alltoall_algorithms,
    barrier_algorithms, broadcast_algorithms, reduce_algorithms,    reduce_scatter_algorithms};

}  // namespace roda::schedule

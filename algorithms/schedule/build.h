// Words to write a schedule in: ranges, steps, and the frame that they go into. For files that define an algorithm.
#pragma once

#include <cstdint>
#include <vector>

#include "algorithms/schedule/schedule.h"

namespace roda::schedule {

inline Range input(int first, int count = 1) { return {Space::kInput, first, count}; }
inline Range output(int first, int count = 1) { return {Space::kOutput, first, count}; }
inline Range scratch(int first, int count = 1) { return {Space::kScratch, first, count}; }
inline Range products(int chunk) { return {Space::kProducts, chunk, 1}; }
inline Range nothing() { return {}; }

inline bool any_size(int size) { return size >= 1; }

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
inline Step weigh(Range dst, Range first, Range second) { return {StepKind::kWeigh, 0, first, dst, 0, second}; }
inline Step signal(int to, int index = 0) { return {StepKind::kSignal, to, nothing(), nothing(), index}; }
inline Step wait(int from, int index = 0) { return {StepKind::kWait, from, nothing(), nothing(), index}; }

}  // namespace step

// Every peer has come as far as this rank: signals all, then waits for all.
inline void append_handshake(std::vector<Step>& steps) {
  steps.push_back(step::signal(kAllPeers));
  steps.push_back(step::wait(kAllPeers));
}

// A schedule with everything set but the steps.
inline Schedule begin(const char* algorithm, Collective collective, int rank, int size, int chunks, int lanes = 1) {
  Schedule schedule;
  schedule.algorithm = algorithm;
  schedule.collective = collective;
  schedule.rank = rank;
  schedule.size = size;
  schedule.chunks = chunks;
  schedule.lanes.resize(static_cast<std::size_t>(lanes));
  return schedule;
}

}  // namespace roda::schedule

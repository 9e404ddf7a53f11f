// One measured operation: its buffers, how it runs, and whether its result is right.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "tools/perf/session.h"

namespace roda::perf {

// `bytes` as nccl-tests counts: of the tensor for allreduce and broadcast; of all ranks' parts together for allgather,
// alltoall and reducescatter.
struct Case {
  std::int32_t collective = RODA_ALLREDUCE;
  std::int32_t dtype = RODA_FLOAT32;
  std::int32_t op = RODA_SUM;
  std::size_t bytes = 0;
  bool in_place = true;
};

// Does the collective read `op`? Is there an in-place and an out-of-place form of it?
bool reduces(std::int32_t collective);
bool has_both_places(std::int32_t collective);

// "transport/algorithm" as the engine's planner says for float32 and sum; "?" when it can't say.
std::string what_runs(const Case& what);

// What a result in float32 is off by at most, as the planner has proved of messages in wire formats; 0: bits are exact.
double tolerance_of(const Case& what, int ranks);

class Workload {
 public:
  Workload(const Session& session, const Case& what);

  // Submits and waits. Buffers keep whatever the last run left in them.
  void run();
  // Runs once on known data. False when any element of the result is wrong, or an input that must stay was written.
  bool check();
  // Gives the input its known data. Not zeros, which processors move quicker; that sums in place become infinite costs
  // nothing.
  void fill();

  std::size_t count() const { return count_; }  // elements of the whole case
  std::size_t bytes() const { return count_ * element_; }

 private:
  bool result_is_right(const void* output) const;
  roda_op make_op();

  Case case_;
  int rank_, ranks_;
  std::size_t element_, count_, rows_;  // rows_: one rank's part of the collectives that split
  std::string name_;
  std::int64_t shape_ = 0;
  std::vector<std::byte> input_, output_;
};

}  // namespace roda::perf

// The calls of a job, which follow from a seed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "core/submit/operation.h"
#include "tests/seeds/draw.h"

namespace roda::seeds {

// What all members of a process set ask for once. Calls of one name come in one order on all ranks; others in any.
struct Call {
  std::string name;
  std::int32_t collective = RODA_ALLREDUCE;
  std::int32_t set = 0;
  std::vector<std::int32_t> members;
  std::int64_t rows = 1;
  std::int64_t width = 1;  // elements of a row; 0: the tensor is a scalar
  std::int32_t root = 0;
  std::int32_t dtype = RODA_INT64;
  std::int32_t op = RODA_SUM;
  double prescale = 1, postscale = 1;
  bool is_in_place = false, gives_memory = false;  // the caller's own, where the engine would make a result
  std::size_t tensors = 1;                         // several are a group
  // The rank that asks for something else, so that the call fails on all; -1: all agree.
  std::int32_t odd = -1;
  enum class Oddity : std::uint8_t { kDtype, kRows, kRoot, kOp, kFactor, kCollective };
  Oddity odd_in = Oddity::kDtype;  // what it asks for differently
  // Not an operation: all ranks make the process set `set`, or remove it.
  bool adds_set = false, removes_set = false;
  std::vector<std::int32_t> set_ranks;  // of that set

  bool has_member(int rank) const;
  // A rank makes it when it has nothing under way, and nothing behind it before.
  bool is_fence() const { return adds_set || removes_set || collective == RODA_JOIN; }
  std::string text() const;
};

inline constexpr int kMostRanks = 16;

struct Job {
  int ranks = 2;
  std::vector<std::vector<std::int32_t>> sets;  // beside the job's own, and those that come and go
  std::vector<Call> calls;
};

// Of `ranks` ranks, up to kMostRanks.
Job draw_job(Draw& draw, int ranks, std::size_t calls);
// What is left of the job with the first ranks, and of its calls those by these numbers (all: nothing named).
Job cut_job(const Job& job, int ranks, const std::vector<std::size_t>& kept);

}  // namespace roda::seeds

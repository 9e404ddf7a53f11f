// The calls of a job, which follow from a seed, and what each rank must get.
//
// Values tell who contributed how often: rank r's are 8^r, so the digits of a sum, to the base of 8, count the ranks.
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
  std::int32_t root = 0;
  std::size_t tensors = 1;  // several are a group
  // The rank that asks for something else, so that the call fails on all; -1: all agree.
  std::int32_t odd = -1;
  std::int32_t odd_in = 0;  // what it asks for differently: 0 the dtype, 1 the number of rows, 2 the root
  // Not an operation: all ranks make the process set `set`, or remove it.
  bool adds_set = false, removes_set = false;
  std::vector<std::int32_t> set_ranks;  // of that set

  bool has_member(int rank) const;
  // A rank makes it when it has nothing under way, and nothing behind it before.
  bool is_fence() const { return adds_set || removes_set || collective == RODA_JOIN; }
  std::string text() const;
};

struct Job {
  int ranks = 2;
  std::vector<std::vector<std::int32_t>> sets;  // beside the job's own, and those that come and go
  std::vector<Call> calls;
};

// Of `ranks` ranks, up to 20.
Job draw_job(Draw& draw, int ranks, std::size_t calls);
// What is left of the job with the first ranks, and of its calls those by these numbers (all: nothing named).
Job cut_job(const Job& job, int ranks, const std::vector<std::size_t>& kept);

// A call on its way on one rank: memory, and what the engine knows of it.
class Flight {
 public:
  Flight(const Call& call, int rank);
  const Call& call() const { return call_; }
  // Fills the operations of a handle; `set`: the number of the call's process set.
  void fill(std::int32_t set, std::span<engine::Operation> operations);
  // What is wrong with the results; "": nothing.
  std::string check(std::span<const engine::Operation> operations) const;

 private:
  std::int64_t rows_of(std::int32_t rank) const;
  std::vector<std::int64_t> expected() const;

  const Call& call_;
  const std::int32_t rank_;
  std::vector<std::vector<std::int64_t>> inputs_, outputs_;  // [tensor]
};

}  // namespace roda::seeds

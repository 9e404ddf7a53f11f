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

  bool has_member(int rank) const;
};

struct Job {
  int ranks = 2;
  std::vector<std::vector<std::int32_t>> sets;  // beside the job's own
  std::vector<Call> calls;
};

// Of `ranks` ranks, up to 20.
Job draw_job(Draw& draw, int ranks, std::size_t calls);

// A call on its way on one rank: memory, and what the engine knows of it.
class Flight {
 public:
  Flight(const Call& call, int rank);
  const Call& call() const { return call_; }
  // Fills the operations of a handle.
  void fill(std::span<engine::Operation> operations);
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

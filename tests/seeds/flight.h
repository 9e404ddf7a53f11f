// A call on its way on one rank: its memory, and what each element of its results must be.
//
// Values tell who contributed how often, where, and in which call. What is summed is a rank's power of 8 times a digit
// that goes with the place and the call, so the digits of a sum, to the base of 8, count the ranks; other combinations
// and what is only moved have values that go with rank, place and call, too.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "core/submit/operation.h"
#include "tests/seeds/job.h"

namespace roda::seeds {

class Flight {
 public:
  // `number`: the call's in the job.
  Flight(const Call& call, std::size_t number, int rank);
  const Call& call() const { return call_; }
  // Fills the operations of a handle; `set`: the number of the call's process set.
  void fill(std::int32_t set, std::span<engine::Operation> operations);
  // What is wrong with the results; "": nothing.
  std::string check(std::span<const engine::Operation> operations) const;

 private:
  std::int64_t rows_of(std::int32_t rank) const;  // of its input
  std::size_t elements_of(std::int32_t rank) const;
  std::int32_t rows_between(std::size_t from, std::size_t to) const;  // of an alltoall; members by place
  double value(std::int32_t rank, std::size_t at, std::size_t tensor) const;
  double combined(std::size_t at, std::size_t tensor) const;
  // Of the tensor's result on this rank; nothing: none is given here.
  std::vector<double> expected(std::size_t tensor) const;
  bool is_right(double got, double right) const;
  void disagree(engine::Operation* op) const;
  std::string check_one(const engine::Operation& op, std::size_t tensor) const;
  static void* give(void* context, const std::int64_t* shape, std::int32_t ndim, std::uint64_t bytes);

  const Call& call_;
  const std::size_t salt_;
  const std::int32_t rank_;
  const std::size_t place_, width_;
  std::vector<std::vector<std::byte>> inputs_, outputs_;  // [tensor]
};

}  // namespace roda::seeds

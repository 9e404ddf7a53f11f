// Test data that any dtype holds exactly, and what a reduction must make of it. Pure.
//
// Element i of rank r depends on i modulo kPeriod only, so a buffer is checked by comparing it with one period.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace roda::perf {

inline constexpr std::size_t kPeriod = 14;

// One period of elements of a dtype, encoded.
class Pattern {
 public:
  // What rank `rank` contributes to a reduction with `op`.
  static Pattern input(std::int32_t dtype, std::int32_t op, int rank);
  // The largest magnitude among those.
  static double largest(std::int32_t op, int rank);
  // The reduction of every rank's contribution.
  static Pattern reduced(std::int32_t dtype, std::int32_t op, int ranks);

  // Elements first, first + 1, … of the endless repetition.
  void fill(void* data, std::size_t first, std::size_t count) const;
  bool matches(const void* data, std::size_t first, std::size_t count) const;
  // Of float32: whether no element is off by more.
  bool is_near(const void* data, std::size_t first, std::size_t count, double tolerance) const;

 private:
  Pattern(std::int32_t dtype, const double (&values)[kPeriod]);

  std::size_t element_;
  std::vector<std::byte> twice_;  // two periods: every phase of one period is contiguous
};

}  // namespace roda::perf

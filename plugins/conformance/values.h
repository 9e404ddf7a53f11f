// Test data for collectives: small whole numbers, exact in every dtype, and the naive reference.
#pragma once

#include <cstdint>
#include <vector>

namespace roda::conformance {

// `count` elements of `dtype`; element i is what value_of(rank, i) says.
std::vector<char> make_elements(int dtype, std::size_t count, int rank, int op);
// The reduction over all ranks of what make_elements gives them.
std::vector<char> reduced_elements(int dtype, std::size_t count, int ranks, int op, std::size_t first = 0);
// Index of the first element that differs, or -1.
std::int64_t first_difference(const std::vector<char>& a, const std::vector<char>& b, int dtype);

}  // namespace roda::conformance

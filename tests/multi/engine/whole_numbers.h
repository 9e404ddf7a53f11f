// Whole numbers over a dtype's whole range, and their averages over the ranks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include "tests/multi/engine/rank.h"

namespace roda::test {

// What `rank` has at element i: numbers over the whole range, and on all ranks together its ends.
template <typename T>
T value(int rank, std::size_t i) {
  if (i % 5 == 0) return std::numeric_limits<T>::max();
  if (i % 5 == 1) return std::numeric_limits<T>::min();
  const std::uint64_t mixed = (i * 64 + static_cast<std::uint64_t>(rank) + 1) * 0x9e3779b97f4a7c15u;
  return static_cast<T>(mixed >> 17);
}

template <typename T>
std::vector<T> values(int rank, std::size_t count, std::size_t from = 0) {
  std::vector<T> all(count);
  for (std::size_t i = 0; i < count; ++i) all[i] = value<T>(rank, from + i);
  return all;
}

// Over all ranks, of which the first `giving` give something and the others zeros.
template <typename T>
std::vector<T> averages(int giving, std::size_t count, std::size_t from = 0) {
  std::vector<T> all(count);
  for (std::size_t i = 0; i < count; ++i) {
    __extension__ __int128 sum = 0;
    for (int r = 0; r < giving; ++r) sum += value<T>(r, from + i);
    all[i] = static_cast<T>(sum / size());
  }
  return all;
}

// test(T(), dtype) for each of their dtypes.
template <typename Test>
void for_whole_numbers(Test&& test) {
  test(std::uint8_t(), RODA_UINT8);
  test(std::int8_t(), RODA_INT8);
  test(std::uint16_t(), RODA_UINT16);
  test(std::int16_t(), RODA_INT16);
  test(std::int32_t(), RODA_INT32);
  test(std::int64_t(), RODA_INT64);
}

}  // namespace roda::test

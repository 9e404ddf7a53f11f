// Many elements at once: made and compared by what is quick without optimisation too, which the sanitizers' build
// lacks.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <vector>

namespace roda::test {

// `count` elements that repeat after `period`: element i is at((from + i) % period).
template <typename At>
auto repeating(std::size_t period, std::size_t count, At at, std::size_t from = 0) {
  std::vector<decltype(at(std::size_t{0}))> all(count);
  std::size_t made = std::min(period, count);
  for (std::size_t i = 0; i < made; ++i) all[i] = at((from + i) % period);
  for (std::size_t more = 0; made < count; made += more) {  // whole periods are there, and as many follow
    more = std::min(made, count - made);
    std::memcpy(all.data() + made, all.data(), more * sizeof all[0]);
  }
  return all;
}

// Whether there are as many and each is equal; if not, which is the first that differs. NaN must not be expected.
template <typename T>
::testing::AssertionResult are_equal(const std::vector<T>& got, const std::vector<T>& expected) {
  if (got.size() != expected.size()) {
    return ::testing::AssertionFailure() << got.size() << " elements, not " << expected.size();
  }
  if (got.empty() || std::memcmp(got.data(), expected.data(), got.size() * sizeof(T)) == 0) {
    return ::testing::AssertionSuccess();
  }
  const auto at = static_cast<std::size_t>(std::mismatch(got.begin(), got.end(), expected.begin()).first - got.begin());
  if (at == got.size()) return ::testing::AssertionSuccess();  // zeros of either sign
  return ::testing::AssertionFailure() << "element " << at << " of " << got.size() << " is " << got[at] << ", not "
                                       << expected[at];
}

}  // namespace roda::test

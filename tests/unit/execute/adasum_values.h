// Vectors for Adasum, and what it makes of them: the recursion written down in double.
#pragma once

#include <cstddef>
#include <numeric>
#include <random>
#include <vector>

namespace roda::execute::testing {

using Values = std::vector<double>;

inline Values combine(const Values& a, const Values& b) {
  const double dot = std::inner_product(a.begin(), a.end(), b.begin(), 0.0);
  const double aa = std::inner_product(a.begin(), a.end(), a.begin(), 0.0);
  const double bb = std::inner_product(b.begin(), b.end(), b.begin(), 0.0);
  const double weight_a = aa == 0 ? 1 : 1 - dot / (2 * aa);
  const double weight_b = bb == 0 ? 1 : 1 - dot / (2 * bb);
  Values out(a.size());
  for (std::size_t i = 0; i < out.size(); ++i) out[i] = weight_a * a[i] + weight_b * b[i];
  return out;
}

// Of vectors [first, first + n); runs of `shares` of them are summed.
inline Values adasum_of(const std::vector<Values>& inputs, std::size_t first, std::size_t n, std::size_t shares = 1) {
  if (n == 1) return inputs[first];
  const Values low = adasum_of(inputs, first, n / 2, shares);
  const Values high = adasum_of(inputs, first + n / 2, n / 2, shares);
  if (n > shares) return combine(low, high);
  Values sum(low.size());
  for (std::size_t i = 0; i < sum.size(); ++i) sum[i] = low[i] + high[i];
  return sum;
}

// Tensors that differ in how alike the ranks' vectors are: none, much, opposite, zero on the odd ranks.
inline Values adasum_input(int rank, const std::vector<std::size_t>& counts) {
  std::mt19937 random(static_cast<unsigned>(rank) * 7919u + 1);
  std::normal_distribution<double> noise(0, 1);
  Values values;
  for (std::size_t tensor = 0; tensor < counts.size(); ++tensor) {
    for (std::size_t i = 0; i < counts[tensor]; ++i) {
      const double own = noise(random);
      const double sign = rank % 2 == 0 ? 1 : -1;
      const double forms[] = {own, 1 + 0.1 * own, sign * (1 + 0.01 * own), rank % 2 == 0 ? own : 0};
      values.push_back(forms[tensor % 4]);
    }
  }
  return values;
}

inline std::vector<std::size_t> begins_of(const std::vector<std::size_t>& counts) {
  std::vector<std::size_t> begins(counts.size());
  std::exclusive_scan(counts.begin(), counts.end(), begins.begin(), std::size_t{0});
  return begins;
}

inline Values part_of(const Values& all, std::size_t begin, std::size_t count) {
  const auto from = all.begin() + static_cast<std::ptrdiff_t>(begin);
  return {from, from + static_cast<std::ptrdiff_t>(count)};
}

}  // namespace roda::execute::testing

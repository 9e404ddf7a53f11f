#include "core/tune/gaussian_process.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <numeric>
#include <utility>

namespace roda::tune {
namespace {

using Vector = std::vector<double>;
using Lower = std::vector<Vector>;

// Added to the diagonal, so that rounding leaves the matrix positive.
constexpr double kLeastNoise = 0.01;

// In place; only the lower triangle is there.
void factorise(Lower* matrix) {
  Lower& a = *matrix;
  for (std::size_t i = 0; i < a.size(); ++i) {
    for (std::size_t j = 0; j <= i; ++j) {
      const double sum =
          a[i][j] - std::inner_product(a[j].begin(), a[j].begin() + static_cast<std::ptrdiff_t>(j), a[i].begin(), 0.0);
      a[i][j] = i == j ? std::sqrt(std::max(sum, 1e-12)) : sum / a[j][j];
    }
  }
}

// factor * x = b
Vector solve(const Lower& factor, Vector b) {
  for (std::size_t i = 0; i < b.size(); ++i) {
    for (std::size_t j = 0; j < i; ++j) b[i] -= factor[i][j] * b[j];
    b[i] /= factor[i][i];
  }
  return b;
}

// transposed factor * x = b
Vector solve_transposed(const Lower& factor, Vector b) {
  for (std::size_t i = b.size(); i-- > 0;) {
    b[i] /= factor[i][i];
    for (std::size_t j = 0; j < i; ++j) b[j] -= factor[i][j] * b[i];
  }
  return b;
}

}  // namespace

GaussianProcess::GaussianProcess(std::vector<Point> points, const std::vector<double>& values, double most_noise)
    : points_(std::move(points)), values_(values) {
  const auto count = static_cast<double>(values_.size());
  mean_ = std::accumulate(values_.begin(), values_.end(), 0.0) / count;
  double squares = 0;
  for (double& v : values_) {
    v -= mean_;
    squares += v * v;
  }
  if (squares > 0) scale_ = std::sqrt(squares / count);
  for (double& v : values_) v /= scale_;
  double best = -std::numeric_limits<double>::infinity(), best_length = 1, best_noise = most_noise;
  for (const double length : {0.1, 0.2, 0.4, 0.8}) {
    for (const double part : {1.0, 0.5, 0.25, 0.125}) {
      const double likelihood = fit(length, most_noise * part);
      if (likelihood <= best) continue;
      best = likelihood;
      best_length = length;
      best_noise = most_noise * part;
    }
  }
  fit(best_length, best_noise);
}

double GaussianProcess::covariance(const Point& a, const Point& b) const {
  double squares = 0;
  for (std::size_t i = 0; i < a.size(); ++i) squares += (a[i] - b[i]) * (a[i] - b[i]);
  return std::exp(-squares / (2 * length_ * length_));
}

double GaussianProcess::fit(double length, double noise) {
  length_ = length;
  factor_.clear();
  for (std::size_t i = 0; i < points_.size(); ++i) {
    Vector& row = factor_.emplace_back();
    for (std::size_t j = 0; j <= i; ++j) row.push_back(covariance(points_[i], points_[j]));
    row.back() += noise * noise + kLeastNoise * kLeastNoise;
  }
  factorise(&factor_);
  weights_ = solve_transposed(factor_, solve(factor_, values_));
  double likelihood = -0.5 * std::inner_product(values_.begin(), values_.end(), weights_.begin(), 0.0);
  for (std::size_t i = 0; i < factor_.size(); ++i) likelihood -= std::log(factor_[i][i]);
  return likelihood;
}

GaussianProcess::Guess GaussianProcess::at(const Point& point) const {
  Vector near;
  for (const Point& known : points_) near.push_back(covariance(point, known));
  const double mean = std::inner_product(near.begin(), near.end(), weights_.begin(), 0.0);
  const Vector part = solve(factor_, near);
  const double variance = 1 - std::inner_product(part.begin(), part.end(), part.begin(), 0.0);
  return {mean_ + scale_ * mean, scale_ * std::sqrt(std::max(variance, 0.0))};
}

}  // namespace roda::tune

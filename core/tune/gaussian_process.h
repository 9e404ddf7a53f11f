// What a few noisy measurements tell of a function in between: a Gaussian process over the unit cube.
//
// Of our own because it is small: a Cholesky factor of a matrix with a row per measurement, of which there are dozens.
// Libraries that have one bring dependencies to every build (Eigen, BLAS) and leave the kernel and the search to us.
//
// A value; any thread.
#pragma once

#include <vector>

namespace roda::tune {

using Point = std::vector<double>;  // coordinates from 0 to 1

class GaussianProcess {
 public:
  // One value a point, at least one of them. `most_noise`: standard deviation of the noise, as a part of the values'
  // own; how much of it there is, and how far the function carries, is what makes the values likeliest.
  GaussianProcess(std::vector<Point> points, const std::vector<double>& values, double most_noise);

  struct Guess {
    double mean = 0;
    double deviation = 0;
  };
  Guess at(const Point& point) const;

 private:
  double covariance(const Point& a, const Point& b) const;
  // The logarithm of the values' likelihood, up to a constant; sets the factor and the weights.
  double fit(double length, double noise);

  std::vector<Point> points_;
  std::vector<double> values_;  // of mean 0 and deviation 1
  double mean_ = 0;
  double scale_ = 1;
  double length_ = 1;
  std::vector<std::vector<double>> factor_;  // lower triangle: covariances are factor * transposed factor
  std::vector<double> weights_;              // inverse covariances * values
};

}  // namespace roda::tune

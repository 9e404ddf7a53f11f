#include "algorithms/schedule/sim/extrapolate.h"

#include <cmath>

namespace roda::sim {
namespace {

constexpr double kRounding = 16;  // picoseconds, of sums of rounded times

using Measure = std::function<std::optional<double>(const std::vector<std::int64_t>&)>;

class Extrapolation {
 public:
  Extrapolation(const std::vector<Dimension>& dimensions, const Measure& measure, bool* whole)
      : dimensions_(dimensions), measure_(measure), whole_(*whole), lengths_(dimensions.size()) {}

  std::optional<double> along(std::size_t number) {
    if (number == dimensions_.size()) return measure_(lengths_);
    const Dimension& dimension = dimensions_[number];
    std::int64_t base = dimension.base;
    std::int64_t stride = dimension.stride;
    for (; base + 3 * stride < dimension.length; base *= 2, stride *= 2) {
      const std::int64_t first = base + (dimension.length - base) % stride;
      double times[3];
      for (std::int64_t i = 0; i < 3; ++i) {
        const auto time = at(number, first + i * stride);
        if (!time) return time;
        times[i] = *time;
      }
      const double step = (times[2] - times[0]) / 2;
      if (2 * std::abs(times[2] - times[1] - step) > dimension.tolerance * step + kRounding) continue;
      whole_ = false;
      const std::int64_t rest = (dimension.length - first) / stride - 2;
      return times[2] + step * static_cast<double>(rest);
    }
    return at(number, dimension.length);
  }

 private:
  std::optional<double> at(std::size_t number, std::int64_t length) {
    lengths_[number] = length;
    return along(number + 1);
  }

  const std::vector<Dimension>& dimensions_;
  const Measure& measure_;
  bool& whole_;
  std::vector<std::int64_t> lengths_;
};

}  // namespace

std::optional<double> extrapolate(const std::vector<Dimension>& dimensions, const Measure& measure, bool* whole) {
  *whole = true;
  return Extrapolation(dimensions, measure, whole).along(0);
}

}  // namespace roda::sim

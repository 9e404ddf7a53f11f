#include "tools/sim/step.h"

#include <algorithm>

namespace roda::simtool {

Step step_of(const std::vector<double>& gradient_bytes, double compute, double agreement, double most_bytes,
             const std::function<double(double)>& travel) {
  const double each = compute * 2 / 3 / static_cast<double>(gradient_bytes.size());
  const auto ready = [&](std::size_t i) { return compute / 3 + each * static_cast<double>(i + 1) + agreement; };
  Step step;
  double free = 0;
  for (std::size_t next = 0; next < gradient_bytes.size(); ++step.buckets) {
    const double start = std::max(free, ready(next));
    double bytes = gradient_bytes[next++];
    while (next < gradient_bytes.size() && ready(next) <= start && bytes + gradient_bytes[next] <= most_bytes) {
      bytes += gradient_bytes[next++];
    }
    free = start + travel(bytes);
  }
  step.seconds = std::max(compute, free);
  return step;
}

}  // namespace roda::simtool

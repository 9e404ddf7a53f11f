// One step of data-parallel training: gradients become ready while the backward pass goes on, and travel in buckets.
#pragma once

#include <cstddef>
#include <functional>
#include <vector>

namespace roda::simtool {

struct Step {
  double seconds = 0;  // until the last bucket is there, or the GPU is done
  int buckets = 0;
};

// `gradient_bytes`: of each, in the order of the backward pass, which takes two thirds of `compute` and
// equally long for each. A gradient may travel `agreement` seconds after it is ready. As long as one bucket is under
// way, what becomes ready waits and then goes as one, up to `most_bytes`. `travel`: seconds of a bucket of so many
// bytes.
Step step_of(const std::vector<double>& gradient_bytes, double compute, double agreement, double most_bytes,
             const std::function<double(double)>& travel);

}  // namespace roda::simtool

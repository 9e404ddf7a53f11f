#include "core/tune/sampler.h"

#include <algorithm>

namespace roda::tune {
namespace {

// Tensors of one job; more are names that never come again, as those that the bindings make up.
constexpr std::size_t kMostNames = 1 << 16;

}  // namespace

void Sampler::restart() {
  is_measuring_ = false;
  seen_.clear();
  most_seen_ = 0;
}

std::optional<double> Sampler::end(std::size_t bytes, double now_us) {
  bytes_ += static_cast<double>(bytes);
  for (const std::string& tensor : current_) most_seen_ = std::max(most_seen_, ++seen_[tensor]);
  std::optional<double> score;
  if (!is_measuring_) {
    if (most_seen_ >= 2) begin(now_us);
  } else if (most_seen_ > steps_) {
    score = bytes_ / std::max(now_us - began_us_, 1.0);
    begin(now_us);
  }
  if (seen_.size() > kMostNames) restart();
  current_.clear();
  return score;
}

void Sampler::begin(double now_us) {
  is_measuring_ = true;
  began_us_ = now_us;
  bytes_ = 0;
  seen_.clear();
  for (const std::string& tensor : current_) seen_[tensor] = 1;  // the sample ends when they come for the last time
  most_seen_ = 1;
}

}  // namespace roda::tune

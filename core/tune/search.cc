#include "core/tune/search.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>
#include <utility>

namespace roda::tune {
namespace {

// The threshold by its exponent, from 64 KiB to 128 MiB; the waiting time by its root, from nothing to 10 ms. Less than
// a tenth of a millisecond is none: no rank wakes up for it in time.
constexpr double kLeastThreshold = 65536;
constexpr double kDoublings = 11;
constexpr double kLongestHold = 10'000;  // us
constexpr double kShortestHold = 100;    // us

// Behind what is in force: 4 MiB and 1 MiB without waiting, and with 0.6 and 2.5 ms.
constexpr std::array<std::array<double, 2>, 4> kFirst = {
    {{6 / kDoublings, 0}, {4 / kDoublings, 0}, {9 / kDoublings, 0.25}, {7 / kDoublings, 0.5}}};

// An improvement below this part of the scores' spread is none.
constexpr double kLeastImprovement = 0.01;
constexpr int kCandidates = 1500;
constexpr std::size_t kFinalists = 3;
// A choice is taken when it is better by this part: two measurements of the same differ, too.
constexpr double kWorthwhile = 1.02;
// Sizes that have less than this part of the buckets, and of their bytes, are not looked at.
constexpr double kFew = 0.1;

double expected_improvement(const GaussianProcess::Guess& guess, double best, double least) {
  const double gain = guess.mean - best - least;
  if (guess.deviation <= 0) return std::max(gain, 0.0);
  const double z = gain / guess.deviation;
  const double below = 0.5 * std::erfc(-z / std::sqrt(2.0));
  const double density = std::exp(-0.5 * z * z) / std::sqrt(2 * std::acos(-1.0));
  return gain * below + guess.deviation * density;
}

}  // namespace

Search::Search(const Tuning& start, SearchOptions options) : options_(std::move(options)), trial_(start), best_(start) {
  if (!is_continuous()) begin_choice();
}

void Search::end_with(const Tuning& found) {
  trial_ = found;
  is_over_ = true;
}

Point Search::point_of(const Tuning& t) const {
  const double bytes = std::max(static_cast<double>(t.threshold), kLeastThreshold);
  Point point;
  if (options_.threshold) point.push_back(std::min(std::log2(bytes / kLeastThreshold) / kDoublings, 1.0));
  if (options_.hold) point.push_back(std::min(std::sqrt(t.hold_us / kLongestHold), 1.0));
  return point;
}

Tuning Search::tuning_at(const Point& point) const {
  Tuning t = best_;
  if (options_.threshold) {
    t.threshold = static_cast<std::uint64_t>(kLeastThreshold * std::exp2(kDoublings * point.front()));
  }
  if (options_.hold) {
    const double us = kLongestHold * point.back() * point.back();
    t.hold_us = us < kShortestHold ? 0 : static_cast<std::uint32_t>(us);
  }
  return t;
}

void Search::scored(double score) {
  if (is_over_) return;
  if (is_choosing_) {
    while (tried_ == 0 && choice_ < options_.choices.size() && !is_worthwhile(options_.choices[choice_])) ++choice_;
    if (tried_ == 0 || score > best_score_ * kWorthwhile) {
      best_ = trial_;
      best_score_ = score;
    }
    ++tried_;
    seen_.clear();
    return try_next();
  }
  points_.push_back(point_of(trial_));
  tunings_.push_back(trial_);
  scores_.push_back(score);
  seen_.clear();
  if (points_.size() < options_.most) return propose();
  add_finalists();
  begin_choice();
}

void Search::propose() {
  const std::size_t behind_start = points_.size() - 1;
  if (behind_start < kFirst.size()) {
    Point point;
    if (options_.threshold) point.push_back(kFirst[behind_start][0]);
    if (options_.hold) point.push_back(kFirst[behind_start][1]);
    trial_ = tuning_at(point);
  } else {
    trial_ = tuning_at(most_promising());
  }
}

Point Search::most_promising() const {
  const GaussianProcess process(points_, scores_, options_.noise);
  double best = process.at(points_.front()).mean;
  for (const Point& point : points_) best = std::max(best, process.at(point).mean);
  const auto [low, high] = std::minmax_element(scores_.begin(), scores_.end());
  const double least = kLeastImprovement * (*high - *low);
  Point candidate(points_.front().size()), most = candidate;
  double promise = -1;
  for (int i = 0; i < kCandidates; ++i) {
    for (double& x : candidate) x = std::uniform_real_distribution<double>(0, 1)(random_);
    // What counts as no waiting is one place.
    if (options_.hold) candidate.back() = point_of(tuning_at(candidate)).back();
    const double improvement = expected_improvement(process.at(candidate), best, least);
    if (improvement <= promise) continue;
    promise = improvement;
    most = candidate;
  }
  return most;
}

// Places whose neighbours are good, too, before one that was lucky once. Measured minutes ago, maybe beside other work
// of the machine: they stand against the start once more, as a choice.
void Search::add_finalists() {
  const GaussianProcess process(points_, scores_, options_.noise);
  std::vector<std::size_t> order(points_.size());
  std::iota(order.begin(), order.end(), 0);
  std::ranges::sort(
      order, [&](std::size_t a, std::size_t b) { return process.at(points_[a]).mean > process.at(points_[b]).mean; });
  Choice finalists;
  std::vector<Tuning> taken{best_};
  for (const std::size_t i : order) {
    if (taken.size() > kFinalists) break;
    if (std::ranges::find(taken, tunings_[i]) != taken.end()) continue;
    taken.push_back(tunings_[i]);
    finalists.changes.push_back([tuning = tunings_[i]](Tuning* t) { *t = tuning; });
  }
  options_.choices.insert(options_.choices.begin(), std::move(finalists));
}

bool Search::is_worthwhile(const Choice& choice) const {
  double bytes = 0, all_bytes = 0, buckets = 0, all_buckets = 0;
  for (const auto& [size, count] : seen_) {
    const bool counts = size >= choice.from && size < choice.to;
    all_buckets += count;
    all_bytes += count * static_cast<double>(size);
    if (counts) buckets += count;
    if (counts) bytes += count * static_cast<double>(size);
  }
  return bytes >= kFew * all_bytes || buckets >= kFew * all_buckets;
}

// What is in force is measured anew beside the others: the machine may have changed meanwhile.
void Search::begin_choice() {
  is_choosing_ = true;
  tried_ = 0;
  trial_ = in_force_ = best_;
  is_over_ = choice_ == options_.choices.size();
}

void Search::try_next() {
  if (choice_ == options_.choices.size()) return begin_choice();
  const std::vector<Change>& changes = options_.choices[choice_].changes;
  if (tried_ > changes.size()) {
    ++choice_;
    return begin_choice();
  }
  trial_ = in_force_;
  changes[tried_ - 1](&trial_);
}

}  // namespace roda::tune

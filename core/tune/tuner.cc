#include "core/tune/tuner.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <utility>

#include "plugins/base/format.h"
#include "plugins/base/log.h"

namespace roda::tune {
namespace {

constexpr std::size_t kSamples = 5;
// Horovod's columns, and ours behind them.
constexpr const char* kHeader =
    "hierarchical_allreduce,hierarchical_allgather,torus_allreduce,cache_enabled,cycle_time_ms,"
    "tensor_fusion_threshold,score,outstanding_buckets,job,select";
// Behind the comma of that number.
constexpr std::size_t kCycleTime = 4, kThreshold = 5, kOutstanding = 7, kJob = 8, kSelect = 9;
constexpr double kMebi = 1 << 20;

// The cells of a row; what follows the last comma that counts is one.
std::vector<std::string> cells_of(const std::string& row) {
  std::vector<std::string> cells(1);
  for (const char c : row) {
    if (c == ',' && cells.size() <= kSelect) {
      cells.emplace_back();
    } else {
      cells.back() += c;
    }
  }
  return cells;
}

// Tensors of one job; more are names that never come again, as those that the bindings make up.
constexpr std::size_t kMostNames = 1 << 16;

}  // namespace

Tuner::Tuner(const Study& study, Search search) : study_(study), search_(std::move(search)), sampler_(study.steps) {
  if (study_.log.empty()) return;
  if (const auto found = found_before()) {
    search_.end_with(*found);
    is_to_tell_ = true;
    RODA_LOG(info, "autotuning: {} has what was found for such a job; without that file it is looked for anew",
             study_.log);
    return;
  }
  log_.open(study_.log, std::ios::trunc);
  log_ << kHeader << '\n' << std::flush;
  if (!log_) RODA_LOG(warning, "HOROVOD_AUTOTUNE_LOG: {} can't be written; tuning goes on without", study_.log);
}

// A file that somebody else has written, or not to its end, has nothing.
std::optional<Tuning> Tuner::found_before() const {
  std::ifstream file(study_.log);
  std::string row, last;
  if (!std::getline(file, row) || row != kHeader) return std::nullopt;
  while (std::getline(file, row)) last = row;
  const std::vector<std::string> cells = cells_of(last);
  if (cells.size() <= kSelect || cells[kJob].empty() || cells[kJob] != study_.job) return std::nullopt;
  const auto number = [&](std::size_t cell) { return std::max(std::strtod(cells[cell].c_str(), nullptr), 0.0); };
  Tuning found;
  found.hold_us = static_cast<std::uint32_t>(std::llround(number(kCycleTime) * 1000));
  found.threshold = static_cast<std::uint64_t>(std::llround(number(kThreshold) * kMebi));
  found.outstanding = std::max(static_cast<std::uint32_t>(number(kOutstanding)), 1u);
  found.select = cells[kSelect];
  return found;
}

std::optional<Tuning> Tuner::launched(std::size_t bytes, double now_us) {
  if (is_to_tell_) {
    is_to_tell_ = false;
    waits_ = true;
    return search_.trial();
  }
  if (!waits_) search_.saw(bytes);
  const std::optional<double> sample = sampler_.end(bytes, now_us);
  if (!sample.has_value() || waits_ || is_over()) return std::nullopt;
  samples_.push_back(*sample);
  if (samples_.size() < kSamples) return std::nullopt;
  std::nth_element(samples_.begin(), samples_.begin() + kSamples / 2, samples_.end());
  const double score = samples_[kSamples / 2];
  samples_.clear();
  if (discarded_ < study_.warmup) {
    ++discarded_;
    return std::nullopt;
  }
  const Tuning measured = search_.trial();
  search_.scored(score);
  write(measured, score, "");
  if (search_.is_over()) write(search_.trial(), search_.best_score(), study_.job);
  if (search_.trial() == measured) {
    sampler_.restart();
    return std::nullopt;
  }
  waits_ = true;
  return search_.trial();
}

void Tuner::in_force() {
  waits_ = false;
  sampler_.restart();
}

void Tuner::write(const Tuning& t, double score, std::string_view job) {
  if (!log_.is_open()) return;
  log_ << roda::format("{},{},{},{},{},{},{}\n", study_.fixed_columns, t.hold_us / 1000.0,
                       static_cast<double>(t.threshold) / kMebi, score, t.outstanding, job, t.select)
       << std::flush;
}

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

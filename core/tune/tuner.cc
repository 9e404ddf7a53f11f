#include "core/tune/tuner.h"

#include <algorithm>
#include <utility>

#include "plugins/base/format.h"
#include "plugins/base/log.h"

namespace roda::tune {
namespace {

constexpr std::size_t kSamples = 5;
// Horovod's columns, and ours behind them.
constexpr const char* kHeader =
    "hierarchical_allreduce,hierarchical_allgather,torus_allreduce,cache_enabled,cycle_time_ms,"
    "tensor_fusion_threshold,score,outstanding_buckets,select\n";

}  // namespace

Tuner::Tuner(const Options& options, Search search)
    : options_(options), search_(std::move(search)), sampler_(options.steps) {
  if (options_.log.empty()) return;
  log_.open(options_.log, std::ios::trunc);
  log_ << kHeader << std::flush;
  if (!log_) RODA_LOG(warning, "HOROVOD_AUTOTUNE_LOG: {} can't be written; tuning goes on without", options_.log);
}

std::optional<Tuning> Tuner::launched(std::size_t bytes, double now_us) {
  if (!waits_) search_.saw(bytes);
  const std::optional<double> sample = sampler_.end(bytes, now_us);
  if (!sample.has_value() || waits_ || is_over()) return std::nullopt;
  samples_.push_back(*sample);
  if (samples_.size() < kSamples) return std::nullopt;
  std::nth_element(samples_.begin(), samples_.begin() + kSamples / 2, samples_.end());
  const double score = samples_[kSamples / 2];
  samples_.clear();
  if (discarded_ < options_.warmup) {
    ++discarded_;
    return std::nullopt;
  }
  const Tuning measured = search_.trial();
  search_.scored(score);
  write(measured, score);
  if (search_.is_over()) write(search_.trial(), search_.best_score());
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

void Tuner::write(const Tuning& t, double score) {
  if (!log_.is_open()) return;
  log_ << roda::format("{},{},{},{},{},{}\n", options_.fixed_columns, t.hold_us / 1000.0,
                       static_cast<double>(t.threshold) / (1 << 20), score, t.outstanding, t.select)
       << std::flush;
}

}  // namespace roda::tune

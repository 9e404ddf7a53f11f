// Autotuning: rank 0 proposes through the log, and every rank changes at the same place of it.
#include "core/engine/engine.h"
#include "core/engine/tuning.h"
#include "plugins/base/format.h"
#include "plugins/base/log.h"

namespace roda::engine {
namespace {

// Buckets under way that are worth a try: more only wait.
constexpr std::uint32_t kOutstanding[] = {1, 2, 4};

double now_us() {
  return std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

}  // namespace

negotiate::BucketRules bucket_rules(const Parts& parts, std::size_t threshold) {
  negotiate::BucketRules rules;
  rules.threshold = threshold;
  rules.adasum_apart = parts.knobs.deterministic;
  rules.groups_apart = parts.knobs.disable_group_fusion;
  PlanQuery large;
  large.bytes = threshold;
  large.size = parts.topology.size();
  large.hosts = static_cast<int>(parts.topology.hosts.size());
  if (parts.planner->fuses_without_copies(large)) rules.limit = threshold;
  return rules;
}

// What the user has set stays as it is.
std::unique_ptr<tune::Tuner> make_tuner(const Parts& parts) {
  const Knobs& knobs = parts.knobs;
  if (!knobs.autotune || parts.rank != 0 || parts.topology.size() == 1) return nullptr;
  negotiate::Tuning start;
  start.threshold = static_cast<std::uint64_t>(knobs.fusion_threshold);
  start.hold_us = static_cast<std::uint32_t>(knobs.cycle_time_ms.value_or(0) * 1000);
  start.outstanding = static_cast<std::uint32_t>(knobs.outstanding_buckets);
  tune::SearchOptions search;
  search.threshold = !knobs.is_set("HOROVOD_FUSION_THRESHOLD");
  search.hold = !knobs.is_set("HOROVOD_CYCLE_TIME");
  search.most = static_cast<std::size_t>(knobs.autotune_most);
  search.noise = knobs.autotune_noise;
  if (!knobs.is_set("HOROVOD_OUTSTANDING_BUCKETS")) {
    tune::Choice& choice = search.choices.emplace_back();
    for (const std::uint32_t count : kOutstanding) {
      if (count != start.outstanding) choice.push_back([count](negotiate::Tuning* t) { t->outstanding = count; });
    }
  }
  tune::Tuner::Options options;
  options.warmup = knobs.autotune_warmup;
  options.steps = knobs.autotune_steps;
  options.log = knobs.autotune_log;
  options.fixed_columns = format("{:d},{:d},{:d},{:d}", knobs.hierarchical_allreduce, knobs.hierarchical_allgather,
                                 knobs.torus_allreduce, knobs.cache_capacity > 0);
  return std::make_unique<tune::Tuner>(options, tune::Search(start, std::move(search)));
}

// What training exchanges: allreduces of all ranks.
void Engine::watch_for_tuner(const negotiate::Launch& launch) {
  if (launch.set != 0 || launch.tensors.front()->collective != RODA_ALLREDUCE) return;
  for (const negotiate::AgreedPtr& tensor : launch.tensors) tuner_->sampler().add(tensor->name);
  if (const auto tuning = tuner_->launched(launch.bytes, now_us())) announcer_.record().tuning(*tuning);
  if (!tuner_->is_over()) return;
  const negotiate::Tuning& best = tuner_->best();
  RODA_LOG(info,
           "autotuning is over; the same without it: HOROVOD_FUSION_THRESHOLD={} HOROVOD_CYCLE_TIME={} "
           "HOROVOD_OUTSTANDING_BUCKETS={}",
           best.threshold, best.hold_us / 1000.0, best.outstanding);
  tuner_.reset();
}

void Engine::tuned(const negotiate::Tuning& tuning) {
  negotiator_.adjust(bucket_rules(parts_, tuning.threshold), static_cast<int>(tuning.outstanding), tuning.hold_us > 0);
  hold_.set_window(std::chrono::microseconds(tuning.hold_us));
  if (tuner_ != nullptr) tuner_->in_force();
}

}  // namespace roda::engine

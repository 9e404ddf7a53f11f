// Autotuning: rank 0 proposes through the log, and every rank changes at the same place of it.
#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "core/engine/engine.h"
#include "core/engine/version.h"
#include "plugins/base/format.h"
#include "plugins/base/hash.h"
#include "plugins/base/log.h"

namespace roda::engine {
namespace {

constexpr double kLongestHold = 4e9;  // us: more than an hour
// Algorithms tried for a range of sizes, in the selection table's order, behind what runs now.
constexpr std::size_t kOthers = 3;
// Buckets under way that are worth a try: more only wait.
constexpr std::uint32_t kOutstanding[] = {1, 2, 4};

double now_us() {
  return std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// Others that could run such an allreduce over the transports that run it now: a new transport may not come up, and
// that would end the job.
std::vector<select::Option> others(Planner* planner, const PlanQuery& query) {
  std::vector<select::Option> found;
  std::set<std::string> transports{select::kLevels};
  bool is_first = true;
  for (const select::Verdict& verdict : planner->candidates(query)) {
    if (!verdict.usable) continue;
    if (!is_first && transports.count(verdict.option.transport) != 0) found.push_back(verdict.option);
    if (is_first) {
      for (const PlanStage& stage : planner->plan_of(query, verdict.option).stages) {
        transports.insert(stage.transport->name);
      }
    }
    is_first = false;
    if (found.size() == kOthers) break;
  }
  return found;
}

// What runs allreduces of host memory, for each range of sizes over which the same could. One rule a range: the
// compositions' own parts are of other sizes of groups, and stay.
std::vector<tune::Choice> algorithm_choices(const Parts& parts) {
  const Knobs& knobs = parts.knobs;
  for (const char* fixed : {"HOROVOD_SELECT", "HOROVOD_HIERARCHICAL_ALLREDUCE", "HOROVOD_TORUS_ALLREDUCE"}) {
    if (knobs.is_set(fixed)) return {};
  }
  std::vector<std::int32_t> ranks(static_cast<std::size_t>(parts.topology.size()));
  std::iota(ranks.begin(), ranks.end(), 0);
  const Shape shape(levels_of(parts.topology, ranks), parts.rank);
  PlanQuery query;
  query.lie_on(shape);
  std::vector<std::size_t> bounds{0};
  const auto& edges = parts.planner->edges_of(query);
  bounds.insert(bounds.end(), edges.begin(), edges.end());
  std::vector<tune::Choice> choices;
  std::vector<std::vector<select::Option>> options;
  for (const std::size_t bound : bounds) {
    query.bytes = bound;
    std::vector<select::Option> found = others(parts.planner.get(), query);
    if (!options.empty() && options.back() == found) continue;
    if (!choices.empty()) choices.back().to = bound;
    options.push_back(std::move(found));
    choices.push_back({{}, bound, SIZE_MAX});
  }
  for (std::size_t i = 0; i < choices.size(); ++i) {
    tune::Choice& choice = choices[i];
    const std::string to = choice.to == SIZE_MAX ? "inf" : std::to_string(choice.to);
    for (const select::Option& option : options[i]) {
      const std::string rule =
          roda::format("allreduce@host:{}-{}[{}] = {}", choice.from, to, ranks.size(), option.text());
      choice.changes.push_back([rule](negotiate::Tuning* t) { t->select += (t->select.empty() ? "" : "; ") + rule; });
    }
  }
  std::erase_if(choices, [](const tune::Choice& choice) { return choice.changes.empty(); });
  return choices;
}

}  // namespace

negotiate::BucketRules bucket_rules(const Parts& parts, std::size_t threshold, std::uint32_t rules) {
  negotiate::BucketRules buckets;
  buckets.threshold = threshold;
  const bool is_told = parts.knobs.is_set("HOROVOD_FUSION_THRESHOLD");
  buckets.complete = is_told ? threshold : std::min(threshold, buckets.complete);
  buckets.adasum_apart = parts.knobs.deterministic;
  buckets.groups_apart = parts.knobs.disable_group_fusion;
  const auto hosts = static_cast<int>(parts.topology.hosts.size());
  const PlanQuery large{.bytes = threshold, .size = parts.topology.size(), .hosts = hosts, .rules = rules};
  if (parts.planner->fuses_without_copies(large)) buckets.limit = threshold;
  return buckets;
}

// Jobs of one kind find the same: their ranks lie alike, and what bears on speed is set alike.
std::string kind_of_job(const Parts& parts) {
  const Knobs& k = parts.knobs;
  Hash hash;
  for (const topology::Host& host : parts.topology.hosts) hash.add(host.ranks.size());
  for (const std::string* text : {&k.cpu_operations, &k.gpu_operations, &k.gpu_allreduce, &k.select, &k.levels}) {
    hash.add(*text + '\n');
  }
  hash.add(roda::format("{} {} {} {}", k.fusion_threshold, k.cycle_time_ms.value_or(0), k.outstanding_buckets,
                        k.num_nccl_streams));
  hash.add(roda::format("{:d} {:d} {:d} {:d} {}", k.hierarchical_allreduce, k.torus_allreduce, k.deterministic,
                        k.disable_group_fusion, k.cache_capacity));
  for (const char* fixed : {"HOROVOD_FUSION_THRESHOLD", "HOROVOD_CYCLE_TIME", "HOROVOD_OUTSTANDING_BUCKETS"}) {
    hash.add(k.is_set(fixed) ? 1 : 0);
  }
  return roda::format("{} ranks on {} hosts {:016x} {}", parts.topology.size(), parts.topology.hosts.size(),
                      hash.value(), kVersion);
}

// What the user has set stays as it is.
std::unique_ptr<tune::Tuner> make_tuner(const Parts& parts) {
  const Knobs& knobs = parts.knobs;
  if (!knobs.autotune || parts.rank != 0 || parts.topology.size() == 1) return nullptr;
  negotiate::Tuning start;
  start.threshold = static_cast<std::uint64_t>(knobs.fusion_threshold);
  start.hold_us = static_cast<std::uint32_t>(std::min(std::ceil(knobs.cycle_time_ms.value_or(0) * 1000), kLongestHold));
  start.outstanding = static_cast<std::uint32_t>(knobs.outstanding_buckets);
  tune::SearchOptions search;
  search.threshold = !knobs.is_set("HOROVOD_FUSION_THRESHOLD");
  search.hold = !knobs.is_set("HOROVOD_CYCLE_TIME");
  search.most = static_cast<std::size_t>(knobs.autotune_most);
  search.noise = knobs.autotune_noise;
  if (!knobs.is_set("HOROVOD_OUTSTANDING_BUCKETS")) {
    auto& changes = search.choices.emplace_back().changes;
    for (const std::uint32_t count : kOutstanding) {
      if (count != start.outstanding) changes.push_back([count](negotiate::Tuning* t) { t->outstanding = count; });
    }
  }
  for (tune::Choice& choice : algorithm_choices(parts)) search.choices.push_back(std::move(choice));
  tune::Tuner::Study options;
  options.warmup = knobs.autotune_warmup;
  options.steps = knobs.autotune_steps;
  options.log = knobs.autotune_log;
  options.job = kind_of_job(parts);
  options.fixed_columns = roda::format("{:d},{:d},{:d},{:d}", knobs.hierarchical_allreduce,
                                       knobs.hierarchical_allgather, knobs.torus_allreduce, knobs.cache_capacity > 0);
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
           "HOROVOD_OUTSTANDING_BUCKETS={} HOROVOD_SELECT='{}'",
           best.threshold, best.hold_us / 1000.0, best.outstanding, best.select);
  tuner_.reset();
}

void Engine::tuned(const negotiate::Tuning& tuning) {
  negotiate::Settings settings = negotiator_.settings();
  settings.rules = parts_.planner->add_rules(tuning.select);
  settings.buckets = bucket_rules(parts_, tuning.threshold, settings.rules);
  settings.outstanding = static_cast<int>(tuning.outstanding);
  settings.hold = tuning.hold_us > 0;
  negotiator_.adjust(settings);
  hold_.set_window(std::chrono::microseconds(tuning.hold_us));
  if (tuner_ != nullptr) tuner_->in_force();
}

}  // namespace roda::engine

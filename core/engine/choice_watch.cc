#include "core/engine/choice_watch.h"

#include <algorithm>
#include <chrono>

namespace roda::engine {

void ChoiceWatch::started(const LaunchRun& run) {
  if (run.plan_text().empty()) return;
  table_.ran(run.launch().set, run.launch().launch_class(), run.plan_text());
}

void ChoiceWatch::ended(const LaunchRun& run, bool alone) {
  const negotiate::Launch& launch = run.launch();
  const bool is_first = run.set()->options().rank == 0 && run.set()->size() > 1;
  if (!is_first || run.is_on_device() || !planner_.may_vary(launch.tensors.front()->collective)) return;
  std::optional<double> seconds;
  if (alone) seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - run.begun_at).count();
  auto proposal = refiner_.ended(launch.set, launch.launch_class(), launch.choice, seconds,
                                 [this, &run] { return candidates(run); });
  if (proposal) proposals_.push_back(std::move(*proposal));
}

std::vector<Refiner::Candidate> ChoiceWatch::candidates(const LaunchRun& run) const {
  const PlanQuery query = run.query();
  std::vector<Refiner::Candidate> found;
  for (const select::Verdict& v : planner_.candidates(query)) {
    if (v.usable) found.push_back({v.option.text(), prediction(query, planner_.plan_of(query, v.option))});
  }
  return found;
}

// Of what may be tried: over transports that this process works with already. One more might fail to connect, and end a
// job that does well without it.
std::optional<double> ChoiceWatch::prediction(const PlanQuery& query, const Plan& plan) const {
  const bool is_at_hand = std::all_of(plan.stages.begin(), plan.stages.end(),
                                      [this](const PlanStage& stage) { return contexts_.has(stage.transport); });
  const auto predicted = is_at_hand ? predict_(query, plan) : std::nullopt;
  return predicted ? std::optional(predicted->seconds) : std::nullopt;
}

std::string ChoiceWatch::refined(std::uint64_t number, const negotiate::Refinement& refinement) {
  refiner_.applied(number, refinement);
  table_.changed(number, refinement);
  return sentence(number, refinement);
}

void ChoiceWatch::forget_set(std::int32_t set) {
  refiner_.forget_set(set);
  table_.forget_set(set);
  std::erase_if(proposals_, [set](const auto& proposal) { return proposal.set == set; });
}

void ChoiceWatch::say(Announcer* announcer) {
  for (const negotiate::Refinement& proposal : proposals_) announcer->refine(proposal);
  proposals_.clear();
}

std::string ChoiceWatch::describe(bool as_json) const {
  if (is_on()) return table_.describe(as_json);
  return as_json ? R"({"refine": false, "classes": []})" : "RODA_REFINE is off: the selection's choices stand\n";
}

}  // namespace roda::engine

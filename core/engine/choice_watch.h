// RODA_REFINE: looks at what a job's launches took, has the refiner judge, and puts its proposals into the log.
//
// Every rank counts what it runs; only the first member of a process set looks at times and proposes. Owned by the
// holder of the baton, but for describe().
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/engine/announcer.h"
#include "core/engine/choice_table.h"
#include "core/engine/launch_run.h"
#include "core/engine/planner.h"
#include "core/engine/refiner.h"
#include "core/engine/set_runtime.h"

namespace roda::engine {

class ChoiceWatch {
 public:
  // `predict` null: nothing is refined, and none of the rest need be called. Both arguments outlive this.
  ChoiceWatch(const Planner& planner, const Contexts& contexts, Predict predict)
      : planner_(planner), contexts_(contexts), predict_(std::move(predict)) {}

  bool is_on() const { return predict_ != nullptr; }

  // A launch of a process set that there is has started, or has ended well; `alone`: with nothing beside it.
  void started(const LaunchRun& run);
  void ended(const LaunchRun& run, bool alone);
  // The log carries a change. Returns it in words.
  std::string refined(std::uint64_t number, const negotiate::Refinement& refinement);
  void forget_set(std::int32_t set);
  // Adds what is proposed to a record that is about to leave anyhow.
  void say(Announcer* announcer);

  // Any thread.
  std::string describe(bool as_json) const;
  std::optional<ChoiceTable::Kept> kept(std::int32_t set, const negotiate::LaunchClass& of) const {
    return table_.kept(set, of);
  }

 private:
  std::vector<Refiner::Candidate> candidates(const LaunchRun& run) const;
  std::optional<double> prediction(const PlanQuery& query, const Plan& plan) const;

  const Planner& planner_;
  const Contexts& contexts_;
  Predict predict_;
  Refiner refiner_;
  ChoiceTable table_;
  std::vector<negotiate::Refinement> proposals_;  // not yet said
};

}  // namespace roda::engine

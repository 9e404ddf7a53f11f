#include "core/plan/plan.h"

#include <algorithm>

#include "algorithms/plan/compile.h"
#include "algorithms/schedule/schedule.h"
#include "core/execute/schedule/program.h"

namespace roda::engine {
namespace {

// What may keep a stage from being staged is found where it runs.
std::string unless(const PlanStage& stage) {
  const auto* algorithm =
      schedule::find_algorithm(static_cast<schedule::Collective>(stage.collective), stage.algorithm);
  const bool has_messages_alone = algorithm != nullptr && !execute::one_sided(algorithm->needs);
  if (!has_messages_alone || stage.transport->memory_kinds == nullptr) return "";
  return std::string(" where ") + stage.transport->name + " does not take the devices'";
}

}  // namespace

schedule::Schedule schedule_of(const Plan& plan, const Shape& shape, int rank, int root) {
  if (plan.is_composed()) {
    const plan::Grid& grid = shape.grid(plan.composition.name);
    return plan::Compiler(plan.composition, grid, root, rank).schedule(rank);
  }
  const PlanStage& only = plan.stages.front();
  const auto collective = static_cast<schedule::Collective>(only.collective);
  const plan::Plan single{only.algorithm, collective, {{collective, only.algorithm, 0}}};
  return plan::Compiler(single, plan::flat_grid(shape.size()), root).schedule(rank);
}

std::string Plan::describe() const {
  std::string text;
  for (std::size_t number = 0; number < stages.size(); ++number) {
    const PlanStage& stage = stages[number];
    text += std::string(text.empty() ? "" : ", then ") + roda_collective_of(stage.collective)->users +
            (places[number].empty() ? "" : " " + places[number]) + " by " + stage.transport->name + "/" +
            stage.algorithm + (stage.staged ? " (staged through host memory" + unless(stage) + ")" : "");
  }
  if (!staged) return text;
  const bool may_be_direct =
      std::all_of(stages.begin(), stages.end(), [](const auto& s) { return !unless(s).empty(); });
  return text + ", staged through host memory" + (may_be_direct ? unless(stages.front()) : "");
}

}  // namespace roda::engine

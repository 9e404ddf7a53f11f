// PlanBinding: how the stages of a plan get at data on a device.
//
// The plan, which is the same on every rank, says what runs. Whether a stage between hosts copies the data to host
// memory for it is each machine's own affair: the messages are the same, and one end does not see in what memory the
// other has them.
#include <algorithm>

#include "core/execute/device/device_abilities.h"
#include "core/execute/schedule/program.h"
#include "core/launch/plan_binding.h"
#include "plugins/base/log.h"

namespace roda::engine {

using execute::StepData;

// A schedule that needs nothing but messages, over a transport that takes the device's memory on this machine.
bool PlanBinding::goes_direct(const PlanStage& stage, execute::StagePool* pool) const {
  if (pool == nullptr) return true;
  const auto* algorithm =
      schedule::find_algorithm(static_cast<schedule::Collective>(stage.collective), stage.algorithm);
  if (algorithm == nullptr || execute::one_sided(algorithm->needs)) return false;
  if (stage.collective == RODA_ADASUM_ALLREDUCE) return false;
  if (!pool->group().context().takes(queue_.memory_kind(), queue_.number)) return false;
  const bool reduces = roda_collective_is(stage.collective, RODA_COMBINES) != 0;
  const bool is_direct = !reduces || queue_.abilities->reduces(queue_);
  RODA_LOG(debug, "{} over group {} works {}", stage.algorithm, pool->group().name(),
           is_direct ? "on the device's memory" : "in host memory: the device has no kernels");
  return is_direct;
}

std::vector<StepData> PlanBinding::find_data() const {
  std::vector<StepData> data;
  if (queue_.is_host()) return data;
  for (std::size_t i = 0; i < plan_->stages.size(); ++i) {
    const bool is_beside = plan_->staged || plan_->stages[i].staged;
    const bool is_direct = is_beside && goes_direct(plan_->stages[i], pools_[i]);
    data.push_back(!is_beside ? StepData::kOnStream : is_direct ? StepData::kDirect : StepData::kStaged);
  }
  return data;
}

// The whole of a plan that would be staged otherwise.
bool PlanBinding::works_directly() const {
  return plan_->staged && std::all_of(data_.begin(), data_.end(), [](StepData d) { return d == StepData::kDirect; });
}

void PlanBinding::find_groups_on_device() {
  on_device_.clear();
  for (std::size_t i = 0; i < data_.size(); ++i) {
    if (pools_[i] != nullptr && data_[i] != StepData::kStaged) on_device_.push_back(&pools_[i]->group());
  }
}

}  // namespace roda::engine

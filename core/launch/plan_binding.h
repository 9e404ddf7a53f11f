// A plan bound to this rank: the groups that run its stages, formed, and the stage of execute/ that runs it all.
//
// Owned by the holder of the baton.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "core/execute/compose/composed_stage.h"
#include "core/execute/device/device_queue.h"
#include "core/execute/stage_pool.h"
#include "core/launch/payload.h"
#include "core/launch/set_runtime.h"
#include "core/negotiate/negotiator.h"
#include "core/plan/planner.h"

namespace roda::engine {

// Launches of one process set that run at once: what the transports' groups are divided among.
inline constexpr std::uint32_t kLaunchesInFlight = 2;

class PlanBinding {
 public:
  // Of another launch from now on. The set outlives it.
  void begin(const negotiate::Launch& launch, SetRuntime* set, const execute::DeviceQueue& queue);
  // Chooses the plan and asks for its groups. *ready: they are formed; else call it again.
  Status connect(Planner* planner, Contexts* contexts, bool* ready);
  // After that: the stage, which nobody else uses.
  Status acquire(execute::StageHandle* stage);
  // The launch is over.
  void release();

  const Work& work() const { return work_; }
  int root() const { return root_; }  // of a broadcast, in the set
  Payload::Means means(const execute::Stage& stage) const;
  // StageArgs::slot for a launch that has this one of the set's.
  std::uint32_t slot(std::uint32_t of_launch) const;
  // By stage of the plan; null where this rank has no part.
  const std::vector<execute::StagePool*>& pools() const { return pools_; }
  // Its groups have room for one launch at a time, or tell launches apart by their order alone.
  bool needs_whole_group() const { return needs_whole_group_; }
  // It starts collectives on a device when its peers' data have come, so that what else started there meanwhile would
  // be in another order on every rank.
  bool needs_whole_device() const { return needs_whole_device_; }

 private:
  bool is_adasum() const { return work_.collective == RODA_ADASUM_ALLREDUCE; }
  // The group of a plan with one stage; null for compositions.
  execute::TransportGroup* only_group() const { return pools_.size() == 1 ? &pools_.front()->group() : nullptr; }
  SetRuntime::Use use(int root) const { return {plan_->id, root, devices_}; }
  Status find_plan(Planner* planner);
  Status find_pools(Contexts* contexts, bool* ready);
  Status find_pool(std::size_t stage, const SetRuntime::Route& route, Contexts* contexts, bool* ready);
  SetRuntime::Route make_route() const;
  void find_needs();
  // How stages on devices get at the data (plan_binding_device.cc).
  std::vector<execute::StepData> find_data() const;
  bool goes_direct(const PlanStage& stage, execute::StagePool* pool) const;
  bool works_directly() const;
  void find_groups_on_device();
  Status make_stage(std::unique_ptr<execute::Stage>* stage);
  std::unique_ptr<execute::Stage> make_composed() const;

  negotiate::AgreedPtr head_;
  std::size_t bytes_ = 0;
  SetRuntime* set_ = nullptr;
  execute::DeviceQueue queue_;
  std::string devices_;  // of all members, in words; "" in host memory
  Work work_;
  int root_ = 0;
  const Plan* plan_ = nullptr;
  std::vector<execute::StagePool*> pools_;
  std::vector<execute::StepData> data_;              // of the plan's stages, where the tensors lie on devices
  std::vector<execute::TransportGroup*> on_device_;  // of the plan's stages: they work on the device's memory
  bool needs_whole_group_ = false;
  bool needs_whole_device_ = false;
};

}  // namespace roda::engine

// A plan bound to this rank: the groups that run its stages, formed, and the stage of execute/ that runs it all.
//
// Owned by the holder of the baton.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "core/execute/device_queue.h"
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
  // Of another launch from now on. Set and launch outlive it.
  void begin(const negotiate::Launch& launch, SetRuntime* set, const execute::DeviceQueue& queue);
  // Chooses the plan and asks for its groups. *ready: they are formed; else call it again.
  Status connect(Planner* planner, Contexts* contexts, bool* ready);
  // After that: the stage, which nobody else uses.
  Status acquire(execute::StageHandle* stage);
  // The launch is over.
  void release();

  const Work& work() const { return work_; }
  int root() const { return use_.root; }  // of a broadcast, in the set
  Payload::Means means(const execute::Stage& stage) const;
  // StageArgs::slot for a launch that has this one of the set's.
  std::uint32_t slot(std::uint32_t of_launch) const;
  // By stage of the plan; null where this rank has no part. Empty: they are not formed.
  std::span<execute::StagePool* const> pools() const {
    return route_ == nullptr ? std::span<execute::StagePool* const>() : route_->pools;
  }
  // Its groups have room for one launch at a time, or tell launches apart by their order alone.
  bool needs_whole_group() const { return needs_whole_group_; }
  // It starts collectives on a device when its peers' data have come, so that what else started there meanwhile would
  // be in another order on every rank.
  bool needs_whole_device() const { return needs_whole_device_; }
  // A library's own collective that works on the device's stream, and whose group is not divided among launches.
  bool is_in_stream_order() const { return is_in_stream_order_; }

 private:
  bool is_adasum() const { return work_.collective == RODA_ADASUM_ALLREDUCE; }
  // One collective over its own group, as a stage of that group runs it.
  bool is_plain() const { return !plan_->is_composed() && !plan_->staged; }
  // The group of a plan with one stage; null for compositions.
  execute::TransportGroup* only_group() const { return pools().size() == 1 ? &pools().front()->group() : nullptr; }
  Status find_plan(Planner* planner);
  void lay_out(SetRuntime::Route* route) const;
  Status find_pools(Contexts* contexts, SetRuntime::Route* route) const;
  execute::StepData find_data(const PlanStage& stage, execute::StagePool* pool) const;
  void find_needs();
  std::unique_ptr<execute::Stage> make_stage() const;

  const negotiate::Agreed* head_ = nullptr;
  std::size_t bytes_ = 0;
  std::uint32_t rules_ = 0;
  SetRuntime* set_ = nullptr;
  execute::DeviceQueue queue_;
  Work work_;
  SetRuntime::Use use_;
  const Plan* plan_ = nullptr;
  SetRuntime::Route* route_ = nullptr;  // the set's; null until its groups are formed
  bool needs_whole_group_ = false;
  bool needs_whole_device_ = false;
  bool is_in_stream_order_ = false;
};

}  // namespace roda::engine

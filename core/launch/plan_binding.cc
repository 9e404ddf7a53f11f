#include "core/launch/plan_binding.h"

#include <algorithm>
#include <utility>

#include "core/execute/staged_stage.h"

namespace roda::engine {

void PlanBinding::begin(const negotiate::Launch& launch, SetRuntime* set, const execute::DeviceQueue& queue) {
  head_ = launch.tensors.front();
  bytes_ = launch.bytes;
  set_ = set;
  queue_ = queue;
  devices_.clear();
  for (const std::int32_t device : head_->devices) devices_ += "." + std::to_string(device);
  work_ = {head_->collective, head_->op, false};
  plan_ = nullptr;
}

void PlanBinding::release() {
  head_.reset();
  pools_.clear();
  on_device_.clear();
}

Status PlanBinding::connect(Planner* planner, Contexts* contexts, bool* ready) {
  if (plan_ == nullptr) RODA_RETURN_IF_ERROR(find_plan(planner));
  RODA_RETURN_IF_ERROR(find_pools(contexts, ready));
  if (*ready) find_groups_on_device();
  return {};
}

// An average is the transport's own where the plan is one collective of a transport that has it on the device; else the
// sum is scaled.
Status PlanBinding::find_plan(Planner* planner) {
  root_ = 0;
  if (roda_collective_is(head_->collective, RODA_ROOTED) != 0) {
    const auto& ranks = set_->options().ranks;
    root_ = static_cast<int>(std::lower_bound(ranks.begin(), ranks.end(), head_->root) - ranks.begin());
  }
  PlanQuery query;
  query.collective = head_->collective;
  query.dtype = head_->dtype;
  query.memory_kind = queue_.memory_kind();
  query.bytes = bytes_;
  query.lie_on(set_->options().shape);
  if (is_adasum() && query.hosts == 1 && planner->carriers().add_on_device(query)) {
    query.collective = RODA_ALLREDUCE;
    work_ = {RODA_ALLREDUCE, RODA_AVERAGE, false};
  }
  if (work_.op == RODA_AVERAGE) {
    query.op = RODA_AVERAGE;
    work_.stage_averages = planner->averages(query);
  }
  query.op = work_.stage_op();
  RODA_RETURN_IF_ERROR(planner->plan(query, &plan_));
  if (is_adasum() && plan_->is_composed()) work_.averaged = static_cast<int>(query.shape->table().front().size());
  return {};
}

SetRuntime::Route PlanBinding::make_route() const {
  SetRuntime::Route route;
  route.groups.resize(plan_->stages.size());
  if (!plan_->is_composed() && !plan_->staged) return route;
  const Shape& shape = set_->options().shape;
  route.schedule = std::make_shared<const schedule::Schedule>(schedule_of(*plan_, shape, shape.self(), root_));
  for (const schedule::Call& call : route.schedule->calls) {
    if (plan_->is_composed()) route.groups[static_cast<std::size_t>(call.stage)] = *call.members;
  }
  return route;
}

// The groups that the plan's stages run over. All are asked for before one is waited for: they form side by side.
Status PlanBinding::find_pools(Contexts* contexts, bool* ready) {
  *ready = true;
  SetRuntime::Route& route = set_->route(use(root_));
  if (route.groups.empty()) route = make_route();
  pools_ = route.pools;
  data_ = route.data;
  if (!pools_.empty()) return {};
  for (std::size_t i = 0; i < plan_->stages.size(); ++i) {
    RODA_RETURN_IF_ERROR(find_pool(i, route, contexts, ready));
  }
  if (!*ready) return {};
  route.pools = pools_;
  data_ = route.data = find_data();
  return {};
}

Status PlanBinding::find_pool(std::size_t stage, const SetRuntime::Route& route, Contexts* contexts, bool* ready) {
  pools_.push_back(nullptr);
  if (plan_->is_composed() && route.groups[stage].empty()) return {};
  execute::TransportContext* context = nullptr;
  RODA_RETURN_IF_ERROR(contexts->get(plan_->stages[stage].transport, &context));
  SetRuntime::GroupPlace place{route.groups[stage], "", -1};
  const bool is_on_device = !queue_.is_host() && !plan_->stages[stage].staged;
  if (is_on_device) place = {route.groups[stage], devices_, queue_.number};
  bool is_formed = false;
  RODA_RETURN_IF_ERROR(set_->stages(*context, place, &pools_.back(), &is_formed));
  *ready = *ready && is_formed;
  return {};
}

// By the plan and not by this rank's part in it: what a rank without a part started meanwhile, others would not have.
void PlanBinding::find_needs() {
  const auto is_native = [](const PlanStage& stage) { return stage.algorithm == schedule::kNative; };
  const bool is_composed = plan_->stages.size() > 1;
  needs_whole_group_ = false;
  needs_whole_device_ = is_composed && std::any_of(plan_->stages.begin(), plan_->stages.end(), is_native);
  for (std::size_t i = 0; i < pools_.size(); ++i) {
    if (pools_[i] == nullptr) continue;
    const bool is_ordered = (is_composed || plan_->staged) && is_native(plan_->stages[i]);
    needs_whole_group_ = needs_whole_group_ || pools_[i]->group().slots() == 1 || is_ordered;
  }
  needs_whole_device_ = !queue_.is_host() && (needs_whole_device_ || (needs_whole_group_ && is_composed));
}

Status PlanBinding::acquire(execute::StageHandle* stage) {
  find_needs();
  const bool is_plain = !plan_->is_composed() && !plan_->staged;
  if (is_plain) return pools_.front()->acquire(work_.collective, plan_->stages.front().algorithm, root_, stage);
  const auto make = [&](std::unique_ptr<execute::Stage>* made) { return make_stage(made); };
  return set_->composed(use(root_), make, stage);
}

Payload::Means PlanBinding::means(const execute::Stage& stage) const {
  return {only_group(), on_device_, queue_.is_host() && stage.takes_buckets(), pools_.size() > 1};
}

std::uint32_t PlanBinding::slot(std::uint32_t of_launch) const {
  const bool is_divided = pools_.size() == 1 && !plan_->staged && only_group()->slots() != 0;
  return is_divided ? of_launch % only_group()->slots() : of_launch;
}

Status PlanBinding::make_stage(std::unique_ptr<execute::Stage>* stage) {
  std::unique_ptr<execute::Stage> made = make_composed();
  const bool is_staged = plan_->staged && plan_->is_composed() && !works_directly();
  *stage = is_staged ? std::make_unique<execute::StagedStage>(std::move(made), set_->options().rank, set_->size())
                     : std::move(made);
  return {};
}

// A collective that is staged as a whole is cut, so that copies and messages overlap.
std::unique_ptr<execute::Stage> PlanBinding::make_composed() const {
  const execute::ExecuteOptions& execute = set_->options().execute;
  const bool is_on_device = !queue_.is_host() && (!plan_->is_composed() || !plan_->staged || works_directly());
  execute::ComposedStage::Options options;
  options.slice_bytes = is_on_device ? execute.device_piece_bytes : execute.level_bytes;
  options.launches = kLaunchesInFlight;
  if (is_on_device) options.data = data_;
  options.groups_on_device = on_device_;
  return std::make_unique<execute::ComposedStage>(plan_->text, set_->route(use(root_)).schedule, pools_,
                                                  std::move(options));
}

}  // namespace roda::engine

// LaunchRun: from the plan to the stage that runs it.
#include <algorithm>

#include "core/engine/launch_run.h"
#include "core/execute/adasum/adasum_stage.h"
#include "core/execute/adasum/device_adasum_stage.h"
#include "core/execute/compose/composed_stage.h"
#include "core/execute/staged_stage.h"

namespace roda::engine {

// An average is the transport's own where the plan is one collective of a transport that has it on the device; else the
// sum is scaled.
Status LaunchRun::find_plan(Planner* planner, const Plan** plan) {
  query_ = PlanQuery();
  query_.collective = collective_ = head().collective;
  query_.dtype = head().dtype;
  query_.memory_kind = queue_.memory_kind();
  query_.bytes = launch_.bytes;
  query_.lie_on(set_->options().shape);
  op_ = wanted_op_ = head().op;
  if (collective_ == RODA_ADASUM_ALLREDUCE && query_.hosts == 1 && planner->adds_on_device(query_)) {
    query_.collective = collective_ = RODA_ALLREDUCE;
    op_ = wanted_op_ = RODA_AVERAGE;
  }
  if (op_ == RODA_AVERAGE) {
    query_.op = RODA_AVERAGE;
    if (planner->averages(query_)) return planner->plan(query_, plan);
    op_ = RODA_SUM;
  }
  query_.op = op_;
  return planner->plan(query_, plan);
}

// The groups that the plan's stages run over. All are asked for before one is waited for: they form side by side.
Status LaunchRun::find_pools(const Plan& plan, int root, Contexts* contexts, bool* ready) {
  *ready = true;
  SetRuntime::Route& route = set_->route(use_of(plan, root));
  if (route.groups.empty()) {
    route.groups.resize(plan.stages.size());
    const Shape& shape = set_->options().shape;
    if (is_scattered_adasum(plan)) route.groups = {own_host(), {}, own_host()};
    if (collective_ != RODA_ADASUM_ALLREDUCE && (plan.is_composed() || plan.staged)) {
      route.schedule = std::make_shared<const schedule::Schedule>(schedule_of(plan, shape, shape.self(), root));
      for (const schedule::Call& call : route.schedule->calls) {
        if (plan.is_composed()) route.groups[static_cast<std::size_t>(call.stage)] = *call.members;
      }
    }
  }
  pools_ = route.pools;
  data_ = route.data;
  if (!pools_.empty()) return {};
  for (std::size_t i = 0; i < plan.stages.size(); ++i) {
    execute::StagePool* pool = nullptr;
    if (!plan.is_composed() || !route.groups[i].empty()) {
      execute::TransportContext* context = nullptr;
      RODA_RETURN_IF_ERROR(contexts->get(plan.stages[i].transport, &context));
      SetRuntime::GroupPlace place{route.groups[i], "", -1};
      const bool is_on_device = !queue_.is_host() && !plan.stages[i].staged;
      if (is_on_device) place = {route.groups[i], devices_, queue_.number};
      bool formed = false;
      RODA_RETURN_IF_ERROR(set_->stages(*context, place, &pool, &formed));
      *ready = *ready && formed;
    }
    pools_.push_back(pool);
  }
  if (!*ready) return {};
  route.pools = pools_;
  data_ = route.data = find_data(plan);
  return {};
}

Status LaunchRun::acquire(const Plan& plan, int root) {
  needs_whole_group_ = false;
  // By the plan and not by this rank's part in it: what a rank without a part started meanwhile, others would not have.
  const auto is_native = [](const PlanStage& stage) { return stage.algorithm == "native"; };
  needs_whole_device_ = plan.stages.size() > 1 && std::any_of(plan.stages.begin(), plan.stages.end(), is_native);
  for (std::size_t i = 0; i < pools_.size(); ++i) {
    if (pools_[i] == nullptr) continue;
    const std::uint32_t slots = pools_[i]->group().slots();
    const bool runs_in_pieces = plan.stages.size() > 1 || plan.staged;
    needs_whole_group_ = needs_whole_group_ || slots == 1 || (runs_in_pieces && plan.stages[i].algorithm == "native");
  }
  needs_whole_device_ = needs_whole_device_ || (needs_whole_group_ && plan.stages.size() > 1);
  const bool is_plain = !plan.is_composed() && !plan.staged && collective_ != RODA_ADASUM_ALLREDUCE;
  if (is_plain) return pools_.front()->acquire(collective_, plan.stages.front().algorithm, root, &stage_);
  const bool goes_by_root = collective_ != RODA_ADASUM_ALLREDUCE;
  const auto make = [&](std::unique_ptr<execute::Stage>* stage) { return make_stage(plan, root, stage); };
  return set_->composed(use_of(plan, goes_by_root ? root : 0), make, &stage_);
}

Status LaunchRun::make_stage(const Plan& plan, int root, std::unique_ptr<execute::Stage>* stage) {
  const bool is_adasum = collective_ == RODA_ADASUM_ALLREDUCE;
  std::unique_ptr<execute::Stage> made;
  if (is_adasum) {
    RODA_RETURN_IF_ERROR(make_adasum(plan, &made));
  } else {
    made = make_composed(plan, root);
  }
  const bool is_staged = plan.staged && (is_adasum || (plan.is_composed() && !works_directly(plan)));
  if (!is_staged) {
    *stage = std::move(made);
    return {};
  }
  *stage = std::make_unique<execute::StagedStage>(std::move(made), set_->options().rank, set_->size());
  return {};
}

// A collective that is staged as a whole is cut, so that copies and messages overlap.
std::unique_ptr<execute::Stage> LaunchRun::make_composed(const Plan& plan, int root) const {
  const execute::ExecuteOptions& execute = set_->options().execute;
  const bool is_on_device = !queue_.is_host() && (!plan.is_composed() || !plan.staged || works_directly(plan));
  execute::ComposedStage::Options options;
  options.slice_bytes = is_on_device ? execute.device_piece_bytes : execute.level_bytes;
  options.launches = kLaunchesInFlight;
  if (is_on_device) options.data = data_;
  options.groups_on_device = on_device_;
  return std::make_unique<execute::ComposedStage>(plan.text, set_->route(use_of(plan, root)).schedule, pools_,
                                                  std::move(options));
}

bool LaunchRun::is_scattered_adasum(const Plan& plan) const {
  return collective_ == RODA_ADASUM_ALLREDUCE && plan.stages.size() > 1;
}

// The members that are on this rank's host.
std::vector<std::int32_t> LaunchRun::own_host() const {
  const Shape& shape = set_->options().shape;
  for (const std::vector<int>& host : shape.table()) {
    if (std::find(host.begin(), host.end(), shape.self()) != host.end()) return {host.begin(), host.end()};
  }
  return {};
}

// Places in the tree go by hosts, so that the ranks of one host share its first levels.
Status LaunchRun::make_adasum(const Plan& plan, std::unique_ptr<execute::Stage>* stage) const {
  const Shape& shape = set_->options().shape;
  const execute::ExecuteOptions& options = set_->options().execute;
  if (is_scattered_adasum(plan)) {
    auto across = std::make_unique<execute::AdasumStage>(pools_[1]->group(), options,
                                                         execute::DeviceAdasumStage::scattered(shape.table()));
    *stage = std::make_unique<execute::DeviceAdasumStage>(*pools_.front(), std::move(across));
    return {};
  }
  execute::AdasumStage::Arrangement arrangement;
  for (const auto& host : shape.table()) {
    arrangement.rank_at.insert(arrangement.rank_at.end(), host.begin(), host.end());
  }
  if (plan.stages.front().algorithm == kVectorHalvingAcross) {
    arrangement.averaged = static_cast<int>(shape.table().front().size());
  }
  *stage = std::make_unique<execute::AdasumStage>(pools_.front()->group(), options, arrangement);
  return {};
}

}  // namespace roda::engine

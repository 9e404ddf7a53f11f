// A launch's plan: the groups that run its stages, formed, and a stage of execute/.
#include <algorithm>
#include <utility>

#include "core/launch/average.h"
#include "core/launch/launch_run.h"
#include "plugins/base/invariant.h"
#include "plugins/base/log.h"

namespace roda::engine {
namespace {

bool is_native(const PlanStage& stage) { return stage.algorithm == nullptr; }

}  // namespace

Status LaunchRun::connect(Planner* planner, Contexts* contexts, bool* ready) {
  *ready = has_groups_ = has_groups_ || set_->size() == 1;
  if (has_groups_) return {};
  const SetRuntime::Binding* const kept = bound_.plan == nullptr ? set_->find_kept(launch_) : nullptr;
  if (kept != nullptr) {
    bound_ = *kept;
  } else {
    if (bound_.plan == nullptr) RODA_RETURN_IF_ERROR(find_plan(planner));
    SetRuntime::Route& route = set_->route(bound_.use);
    const Shape& shape = set_->options().shape;
    if (route.program == nullptr) {
      RODA_RETURN_IF_ERROR(program_of(plan(), shape, shape.self(), bound_.use.root, &route.program));
      route.feeds_back = route.program->is_formatted && feeds_back(plan(), shape);
    }
    if (route.groups.empty()) RODA_RETURN_IF_ERROR(find_groups(contexts, &route));
    if (route.groups.empty()) return {};
    bound_.route = &route;
    set_->keep(launch_, bound_);
  }
  *ready = has_groups_ = true;
  return {};
}

// An average is the transport's own where the plan is one collective of a transport that has it on the device; else
// the sum is scaled.
Status LaunchRun::find_plan(Planner* planner) {
  Work& work = bound_.work;
  if (roda_collective_is(head().collective, RODA_ROOTED) != 0) {
    const auto& ranks = set_->options().ranks;
    bound_.use.root = static_cast<int>(std::ranges::lower_bound(ranks, head().root) - ranks.begin());
  }
  const auto is_adasum = [&work] { return work.collective == RODA_ADASUM_ALLREDUCE; };
  PlanQuery query;
  query.collective = head().collective;
  query.dtype = head().dtype;
  query.memory_kind = queue_.memory_kind();
  query.bytes = launch_.bytes;
  query.rules = planner->rules_with(launch_.rules, head().wire_format);
  query.lie_on(set_->options().shape);
  if (is_adasum() && query.hosts == 1 && planner->carriers().add_on_device(query)) {
    query.collective = RODA_ALLREDUCE;
    work = {RODA_ALLREDUCE, RODA_AVERAGE, false};
  }
  if (work.op == RODA_AVERAGE && roda_dtype_is(head().dtype, RODA_INTEGER) != 0) {
    work.is_spread = true;
    query.dtype = sum_dtype(head().dtype, query.size);
    query.bytes =
        launch_.bytes / roda_dtype_size(head().dtype) * sum_width(head().dtype) * roda_dtype_size(query.dtype);
  } else if (work.op == RODA_AVERAGE) {
    query.op = RODA_AVERAGE;
    work.stage_averages = planner->averages(query);
  }
  query.op = work.stage_op();
  RODA_RETURN_IF_ERROR(planner->plan(query, &bound_.plan));
  bound_.use.plan = plan().id;
  if (is_adasum() && plan().is_composed()) work.averaged = static_cast<int>(query.shape->table().front().size());
  return {};
}

const Formats& LaunchRun::formats() const {
  static const Formats none;
  if (bound_.route == nullptr || !bound_.route->program->is_formatted) return none;
  const auto [found, is_new] = bound_.route->formats.try_emplace(launch_.bytes);
  if (!is_new) return found->second;
  PlanQuery query;
  query.bytes = launch_.bytes;
  query.lie_on(set_->options().shape);
  return found->second = formats_of(plan(), query);
}

// The groups that the plan's stages run over. All are asked for before one is waited for: they form side by side.
Status LaunchRun::find_groups(Contexts* contexts, SetRuntime::Route* route) const {
  std::vector<execute::TransportGroup*> groups(plan().stages.size());
  bool is_formed = true;
  const auto find = [&](std::size_t stage, const std::vector<std::int32_t>& members) -> Status {
    execute::TransportContext* context = nullptr;
    RODA_RETURN_IF_ERROR(contexts->get(plan().stages[stage].transport, &context));
    SetRuntime::GroupPlace place{members, -1, {}, -1};
    const bool is_on_device = !queue_.is_host() && !plan().stages[stage].staged;
    if (is_on_device) place = {members, bound_.use.placement, head().devices, queue_.number};
    RODA_RETURN_IF_ERROR(set_->group(*context, place, &groups[stage]));
    is_formed = is_formed && groups[stage] != nullptr;
    return {};
  };
  if (!plan().is_composed()) RODA_RETURN_IF_ERROR(find(0, {}));
  for (std::size_t i = 0; plan().is_composed() && i < route->program->calls.size(); ++i) {
    const schedule::Call& call = route->program->calls[i];
    RODA_RETURN_IF_ERROR(find(static_cast<std::size_t>(call.stage), *call.members));
  }
  if (!is_formed) return {};
  route->groups = std::move(groups);
  route->needs = find_needs(*route);
  if (queue_.is_host()) return {};
  for (std::size_t i = 0; i < plan().stages.size(); ++i) {
    execute::TransportGroup* group = route->groups[i];
    route->data.push_back(find_data(plan().stages[i], group));
    if (group != nullptr && route->data[i] != execute::StepData::kStaged) route->on_device.push_back(group);
  }
  return {};
}

// The plan, which is the same on every rank, says what runs. Whether a stage between hosts copies the data to host
// memory for it is each machine's own affair: the messages are the same, and one end does not see in what memory the
// other has them. A schedule that needs nothing but messages works there over a transport that takes the device's
// memory on this machine.
execute::StepData LaunchRun::find_data(const PlanStage& stage, execute::TransportGroup* group) const {
  if (!plan().staged && !stage.staged) return execute::StepData::kOnStream;
  if (group == nullptr) return execute::StepData::kDirect;
  if (is_native(stage) || schedule::is_one_sided(stage.algorithm->needs)) return execute::StepData::kStaged;
  if (stage.collective == RODA_ADASUM_ALLREDUCE) return execute::StepData::kStaged;
  if (!group->context().takes(queue_.memory_kind(), queue_.number)) return execute::StepData::kStaged;
  const bool is_direct = roda_collective_is(stage.collective, RODA_COMBINES) == 0 || queue_.can_reduce();
  RODA_LOG(debug, "{} over group {} works {}", stage.algorithm_name(), group->name(),
           is_direct ? "on the device's memory" : "in host memory: the device has no kernels");
  return is_direct ? execute::StepData::kDirect : execute::StepData::kStaged;
}

// The needs follow from the plan and not from this rank's part in it: a rank without a part must not start launches
// that the others hold back.
SetRuntime::Needs LaunchRun::find_needs(const SetRuntime::Route& route) const {
  const bool is_composed = plan().stages.size() > 1;
  const bool has_native = std::ranges::any_of(plan().stages, is_native);
  SetRuntime::Needs needs;
  for (std::size_t i = 0; i < route.groups.size(); ++i) {
    if (route.groups[i] == nullptr) continue;
    const bool is_ordered = (is_composed || plan().staged) && is_native(plan().stages[i]);
    needs.whole_group = needs.whole_group || route.groups[i]->slots() == 1 || is_ordered;
  }
  needs.stream_order = !queue_.is_host() && is_plain() && has_native && route.groups.front()->slots() == 0;
  needs.whole_device = !queue_.is_host() && is_composed && (has_native || needs.whole_group);
  return needs;
}

// A collective that is staged as a whole is cut, so that copies and messages overlap. A composition whose stages
// can't all get at the device's memory works in host memory throughout.
Status LaunchRun::make_stage(std::unique_ptr<execute::Stage>* stage) const {
  const SetRuntime::Route& route = *bound_.route;
  const execute::ExecuteOptions& sizes = set_->options().execute;
  if (is_plain()) return execute::make_stage(route.program, *route.groups.front(), sizes, stage);
  const std::vector<execute::StepData>& data = route.data;
  const bool is_direct = std::ranges::all_of(data, [](execute::StepData d) { return d == execute::StepData::kDirect; });
  const bool is_staged = plan().staged && plan().is_composed() && !is_direct;
  const bool is_on_device = !queue_.is_host() && !is_staged;
  const bool is_shared_out = plan().is_composed() && route.program->collective == schedule::Collective::kAllreduce;
  const std::size_t on_host = plan::level_slice(sizes, is_shared_out ? route.program->chunks : 1);
  *stage = execute::make_composed_stage(plan().text, route.program, route.groups, sizes,
                                        {.slice_bytes = is_on_device ? sizes.device_level_bytes : on_host,
                                         .launches = kLaunchesInFlight,
                                         .data = is_on_device ? data : std::vector<execute::StepData>()});
  return {};
}

}  // namespace roda::engine

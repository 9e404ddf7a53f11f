#include "core/plan/plan.h"

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include "algorithms/index.h"
#include "algorithms/plan/compile.h"
#include "algorithms/schedule/format.h"
#include "algorithms/schedule/program.h"
#include "core/execute/layout.h"
#include "plugins/base/hash.h"

namespace roda::engine {
namespace {

std::uint64_t hash_of(const std::vector<topology::Level>& levels) {
  Hash hash;
  for (const topology::Level& level : levels) {
    hash.add(level.name);
    for (const std::int32_t unit : level.units) hash.add(static_cast<std::uint32_t>(unit) + 256u);
  }
  return hash.value();
}

std::size_t divided_up(std::size_t count, std::size_t by) { return (count + by - 1) / by; }

// What may keep a stage from being staged is found where it runs.
std::string unless(const PlanStage& stage) {
  const bool has_messages_alone = stage.algorithm != nullptr && !schedule::is_one_sided(stage.algorithm->needs);
  if (!has_messages_alone || stage.transport->memory_kinds == nullptr) return "";
  return std::string(" where ") + stage.transport->name + " does not take the devices'";
}

}  // namespace

Shape::Shape(const std::vector<topology::Level>& levels, int self)
    : self_(self), hash_(hash_of(levels)), nested_(plan::nested_grid(levels)) {
  const auto& hosts = levels[topology::host_level(levels)].units;
  std::map<std::int32_t, std::size_t> rows;
  for (std::size_t member = 0; member < hosts.size(); ++member) {
    const auto [row, is_new] = rows.emplace(hosts[member], table_.size());
    if (is_new) table_.emplace_back();
    table_[row->second].push_back(static_cast<int>(member));
  }
  by_host_ = plan::nested_grid({{topology::kHost, hosts}});
  lay_out_torus();
}

void Shape::lay_out_torus() {
  if (hosts() < 2) {
    no_torus_ = "all ranks are on one host";
  } else if (!by_host_.is_even()) {
    no_torus_ = "the hosts have different numbers of ranks";
  } else if (size() == hosts() && plan::even_dims(hosts()).back() < 2) {
    no_torus_ = std::to_string(hosts()) + " hosts of one rank each make no rectangle";
  } else {
    torus_ = plan::torus_of_hosts(by_host_);
  }
}

Status program_of(const Plan& plan, const Shape& shape, int rank, int root,
                  std::shared_ptr<const schedule::Program>* program) {
  const PlanStage& first = plan.stages.front();
  schedule::Program made;
  std::optional<std::string> wrong;
  if (plan.is_composed()) {
    const plan::Grid& grid = shape.grid(plan.composition.name);
    wrong = plan::Compiler(plan.composition, grid, root, rank).compile(rank, &made);
  } else if (first.algorithm == nullptr) {
    made = schedule::native_program(static_cast<schedule::Collective>(first.collective), rank, shape.size(), root);
  } else {
    wrong = schedule::compile(*first.algorithm, rank, shape.size(), root, &made);
  }
  if (wrong) return Status::unsupported(*wrong);
  *program = std::make_shared<const schedule::Program>(std::move(made));
  if (!plan.staged || plan.is_composed()) return {};
  *program = std::make_shared<const schedule::Program>(around(std::move(*program)));
  return {};
}

Formats formats_of(const Plan& plan, const PlanQuery& q) {
  Formats all;
  for (std::size_t number = 0; number < plan.stages.size(); ++number) {
    const schedule::Algorithm* algorithm = plan.stages[number].algorithm;
    if (algorithm == nullptr || algorithm->format == RODA_WIRE_NONE) continue;
    std::size_t elements = q.bytes / sizeof(float);
    int size = q.size;
    if (plan.is_composed()) {
      const plan::Grid& grid = q.shape->grid(plan.composition.name);
      const std::int32_t axis = plan.composition.stages[number].axis;
      size = grid.largest(axis);
      // Stages along inner axes share the data out, before it or after, unless they came to the same on all ranks.
      const auto& stages = plan.composition.stages;
      for (std::int32_t inner = 0; inner < axis; ++inner) {
        const bool is_shared_out = std::ranges::any_of(stages, [&](const plan::Stage& stage) {
          return stage.axis == inner && stage.collective != schedule::Collective::kAllreduce;
        });
        if (is_shared_out) elements = divided_up(elements, at(grid.smallest(inner)));
      }
    }
    schedule::Program program;
    static_cast<void>(schedule::compile(*algorithm, 0, size, 0, &program));
    const auto begin_of = [&](std::int32_t chunk) {
      return execute::balanced_begin(elements, sizeof(float), at(program.chunks), at(chunk),
                                     execute::grain_of(program));
    };
    for (const schedule::LaneProgram& lane : program.lanes) {
      for (const schedule::Op& op : lane.ops) {
        if (op.kind != schedule::OpKind::kSend) continue;
        const std::size_t part = begin_of(op.src.first + op.src.count) - begin_of(op.src.first);
        all.meant += part * sizeof(float);
        all.sent += roda_wire_bytes(op.format, part);
      }
    }
    const int roundings = schedule::rounding_of(*algorithm, size).most;
    all.names += std::string(all.names.empty() ? "" : ", ") + roda_wire_formats[algorithm->format].name;
    all.roundings += roundings;
    if (roda_wire_formats[algorithm->format].error > roda_wire_formats[all.worst].error) all.worst = algorithm->format;
    all.bound = (1 + all.bound) * (1 + schedule::error_bound(algorithm->format, roundings)) - 1;
  }
  return all;
}

bool feeds_back(const Plan& plan, const Shape& shape) {
  bool has_any = false;
  for (std::size_t number = 0; number < plan.stages.size(); ++number) {
    const PlanStage& stage = plan.stages[number];
    const bool is_formatted = stage.algorithm != nullptr && stage.algorithm->format != RODA_WIRE_NONE;
    // Behind an allreduce several ranks have the same sums.
    if (!is_formatted && stage.collective == RODA_ALLREDUCE) return false;
    if (!is_formatted) continue;
    if (stage.algorithm->format != RODA_WIRE_INT8 && stage.algorithm->format != RODA_WIRE_INT4) return false;
    std::vector<std::int32_t> sizes{shape.size()};
    if (plan.is_composed()) {
      sizes = shape.grid(plan.composition.name).sizes(plan.composition.stages[number].axis);
    }
    has_any = std::ranges::all_of(sizes, [&](int size) { return schedule::rounds_apart(*stage.algorithm, size); });
    if (!has_any) return false;
  }
  return has_any;
}

std::string Plan::describe() const {
  std::string text;
  for (std::size_t number = 0; number < stages.size(); ++number) {
    const PlanStage& stage = stages[number];
    text += std::string(text.empty() ? "" : ", then ") + roda_collective_of(stage.collective)->users +
            (places[number].empty() ? "" : " " + places[number]) + " by " + stage.transport->name + "/" +
            stage.algorithm_name() + (stage.staged ? " (staged through host memory" + unless(stage) + ")" : "");
  }
  if (!staged) return text;
  const bool may_be_direct = std::ranges::all_of(stages, [](const auto& s) { return !unless(s).empty(); });
  return text + ", staged through host memory" + (may_be_direct ? unless(stages.front()) : "");
}

}  // namespace roda::engine

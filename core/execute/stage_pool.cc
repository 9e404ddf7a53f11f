#include "core/execute/stage_pool.h"

#include <algorithm>

#include "algorithms/schedule/program.h"
#include "plugins/base/invariant.h"

namespace roda::execute {

Status StagePool::acquire(int collective, const schedule::Algorithm* algorithm, int root, StageHandle* stage) {
  if (roda_collective_is(collective, RODA_ROOTED) == 0 && collective != RODA_ADASUM_ALLREDUCE) root = 0;
  for (const auto& entry : entries_) {
    if (entry->kept.busy || entry->collective != collective || entry->root != root || entry->algorithm != algorithm) {
      continue;
    }
    *stage = entry->kept.take();
    return {};
  }
  std::unique_ptr<Entry> made;
  RODA_RETURN_IF_ERROR(make(collective, algorithm, root, &made));
  entries_.push_back(std::move(made));
  *stage = entries_.back()->kept.take();
  return {};
}

const schedule::Program* StagePool::program_of(const Stage& stage) const {
  const auto entry = std::ranges::find_if(entries_, [&](const auto& e) { return e->kept.stage.get() == &stage; });
  return entry == entries_.end() ? nullptr : (*entry)->program.get();
}

Status StagePool::make(int collective, const schedule::Algorithm* algorithm, int root, std::unique_ptr<Entry>* entry) {
  const auto keep = [&](std::shared_ptr<const schedule::Program> program, std::unique_ptr<Stage> stage) {
    *entry =
        std::make_unique<Entry>(Entry{collective, root, algorithm, std::move(program), KeptStage(std::move(stage))});
  };
  const std::string transport = group_.context().name();
  if (algorithm == nullptr) {
    if (!group_.context().has(RODA_CAP_NATIVE)) return Status::unsupported(transport + " has no native collectives");
    keep(nullptr, make_native_stage(group_));
    return {};
  }
  RODA_INVARIANT(algorithm->collective == static_cast<schedule::Collective>(collective),
                 "an algorithm runs its own collective");
  const std::string name = algorithm->name;
  if (!algorithm->accepts(group_.size())) {
    return Status::unsupported(name + " does not run on " + std::to_string(group_.size()) + " ranks");
  }
  if ((algorithm->needs & ~group_.context().needs_met()) != 0) {
    return Status::unsupported(transport + " lacks what " + name + " needs");
  }
  if (schedule::is_one_sided(algorithm->needs) && group_.slots() == 0) {
    return Status::unsupported(transport + " has too few signals or windows");
  }
  const auto program = std::make_shared<schedule::Program>();
  if (auto wrong = compile(*algorithm, group_.rank(), group_.size(), root, program.get())) {
    return Status::unsupported(*wrong);
  }
  keep(program, make_schedule_stage(group_, options_, program));
  return {};
}

}  // namespace roda::execute

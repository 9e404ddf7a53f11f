#include "core/execute/stage_pool.h"

#include <algorithm>
#include <utility>

#include "algorithms/schedule/program.h"
#include "plugins/base/invariant.h"

namespace roda::execute {

Status StagePool::acquire(int collective, const schedule::Algorithm* algorithm, int root, StageHandle* stage) {
  if (roda_collective_is(collective, RODA_ROOTED) == 0 && collective != RODA_ADASUM_ALLREDUCE) root = 0;
  auto entry = std::ranges::find_if(entries_, [&](const Entry& e) {
    return e.collective == collective && e.root == root && e.algorithm == algorithm;
  });
  if (entry == entries_.end()) {
    std::shared_ptr<const schedule::Program> program;
    RODA_RETURN_IF_ERROR(compile(collective, algorithm, root, &program));
    entry = entries_.insert(entry, Entry{collective, root, algorithm, std::move(program), {}});
  }
  *stage = take_free(entry->stages);
  if (*stage != nullptr) return {};
  entry->stages.push_back(make_program_stage(group_, options_, entry->program));
  *stage = take_free(entry->stages);
  return {};
}

Status StagePool::compile(int collective, const schedule::Algorithm* algorithm, int root,
                          std::shared_ptr<const schedule::Program>* program) const {
  const std::string transport = group_.context().name();
  auto made = std::make_shared<schedule::Program>();
  if (algorithm == nullptr) {
    if (!group_.context().has(RODA_CAP_NATIVE)) return Status::unsupported(transport + " has no native collectives");
    made->algorithm = std::string("native ") + roda_collective_name(collective);
    made->collective = static_cast<schedule::Collective>(collective);
    made->is_native = true;
    *program = std::move(made);
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
  if (auto wrong = schedule::compile(*algorithm, group_.rank(), group_.size(), root, made.get())) {
    return Status::unsupported(*wrong);
  }
  *program = std::move(made);
  return {};
}

}  // namespace roda::execute

#include "core/execute/stage_pool.h"

#include <utility>

#include "core/execute/native_stage.h"
#include "core/execute/schedule/schedule_stage.h"

namespace roda::execute {

struct StagePool::Entry {
  int collective;
  int root;
  std::string algorithm;
  std::unique_ptr<Stage> stage;
  bool busy;
};

StagePool::StagePool(TransportGroup& group, const ExecuteOptions& options) : group_(group), options_(options) {}
StagePool::~StagePool() = default;

Status StagePool::acquire(int collective, const std::string& algorithm, int root, StageHandle* stage) {
  if (roda_collective_is(collective, RODA_ROOTED) == 0 && collective != RODA_ADASUM_ALLREDUCE) root = 0;
  for (const auto& kept : entries_) {
    Entry& entry = *kept;
    if (entry.busy || entry.collective != collective || entry.root != root || entry.algorithm != algorithm) continue;
    entry.busy = true;
    *stage = StageHandle(entry.stage.get(), StageRelease{&entry.busy});
    return {};
  }
  std::unique_ptr<Stage> made;
  RODA_RETURN_IF_ERROR(make(collective, algorithm, root, &made));
  entries_.push_back(std::make_unique<Entry>(Entry{collective, root, algorithm, std::move(made), true}));
  *stage = StageHandle(entries_.back()->stage.get(), StageRelease{&entries_.back()->busy});
  return {};
}

Status StagePool::make(int collective, const std::string& algorithm, int root, std::unique_ptr<Stage>* stage) {
  if (algorithm == "native") {
    if (!group_.context().has(RODA_CAP_NATIVE)) {
      return Status::unsupported(std::string(group_.context().name()) + " has no native collectives");
    }
    *stage = std::make_unique<NativeStage>(group_);
    return {};
  }
  const auto kind = static_cast<schedule::Collective>(collective);
  const schedule::Algorithm* found = schedule::find_algorithm(kind, algorithm);
  if (found == nullptr) {
    return Status::invalid("no algorithm " + algorithm + " for " + roda_collective_name(collective));
  }
  if (!found->accepts(group_.size())) {
    return Status::unsupported(algorithm + " does not run on " + std::to_string(group_.size()) + " ranks");
  }
  if ((found->needs & ~group_.context().needs_met()) != 0) {
    return Status::unsupported(std::string(group_.context().name()) + " lacks what " + algorithm + " needs");
  }
  const bool one_sided = (found->needs & ~std::uint32_t{schedule::kNeedsMessages}) != 0;
  if (one_sided && group_.slots() == 0) {
    return Status::unsupported(std::string(group_.context().name()) + " has too few signals or windows");
  }
  Program program;
  RODA_RETURN_IF_ERROR(compile(*found, group_.rank(), group_.size(), root, &program));
  *stage = std::make_unique<ScheduleStage>(group_, options_, std::move(program));
  return {};
}

}  // namespace roda::execute

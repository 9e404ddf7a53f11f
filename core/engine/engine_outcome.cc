// What the log says, done to this rank's operations.
#include <algorithm>

#include "core/engine/engine.h"
#include "plugins/base/log.h"

namespace roda::engine {

void Engine::announced(const std::string& name, int collective, std::span<const wire::RankRange> ranks) {
  if (!timeline_.active()) return;
  for (const wire::RankRange& range : ranks) {
    for (std::int32_t rank = range.first; rank <= range.last; ++rank) timeline_.announced(name, collective, rank);
  }
}

void Engine::launch(negotiate::Launch launch) {
  news_for_others_ = true;
  if (timeline_.active()) {
    timeline_.cycle();
    for (const negotiate::AgreedPtr& tensor : launch.tensors) {
      timeline_.agreed(tensor->name, tensor->collective);
      timeline_.launched(tensor->name, tensor->collective);
    }
  }
  if (!launcher_.set(launch.set).is_member()) return;
  std::vector<Operation*> operations = submissions_.take_launched(launch, &announcer_);
  launcher_.add(std::move(launch), std::move(operations));
}

void Engine::refuse(std::int32_t set, const std::string& name, const Status& error) {
  news_for_others_ = true;
  Operation* op = submissions_.find(set, name);
  // It may have been agreed on by its bit, and be refused with its group.
  if (op != nullptr && op->bit >= 0) announcer_.settle(set, op->bit, name);
  timeline_.agreed(name, op == nullptr ? RODA_ALLREDUCE : op->request.collective);
  end_operations({op}, error);
}

void Engine::announce_again(std::int32_t set, int bit) {
  if (Operation* op = announcer_.settle(set, bit)) announcer_.announce(op);
}

void Engine::bit_freed(std::int32_t set, int bit) { announcer_.settle(set, bit); }

void Engine::join_done(std::int32_t set, std::int32_t last_rank) {
  news_for_others_ = true;
  parts_.control->join_done(set);
  Operation* op = submissions_.find(set, kJoinName);
  if (op != nullptr) op->value = last_rank;
  end_operations({op}, Status());
}

void Engine::open_set(std::int32_t id, const std::vector<std::int32_t>& ranks) {
  SetRuntime::Options options;
  // Ids are used again; the count of sets ever opened is not, and equal on all ranks.
  options.name = parts_.job_key + "/set" + std::to_string(id) + "." + std::to_string(++sets_opened_);
  options.ranks = ranks;
  options.rank = negotiator_.position(id, parts_.rank);
  options.shape = Shape(levels_of(parts_.topology, ranks), options.rank);
  options.generation = parts_.generation;
  options.timeout_ns = static_cast<std::uint64_t>(parts_.knobs.gloo_timeout_seconds) * 1'000'000'000u;
  launcher_.open_set(id, std::move(options));
  parts_.control->set_added(id, ranks);
  submissions_.set_opened(id, ranks);
}

void Engine::set_added(std::int32_t id, const std::vector<std::int32_t>& ranks) {
  news_for_others_ = true;
  open_set(id, ranks);
  baton_.pulse();
}

void Engine::set_removed(std::int32_t id) {
  news_for_others_ = true;
  const std::vector<Operation*> pending = submissions_.set_closed(id);
  announcer_.forget_set(id);
  parts_.control->set_removed(id);
  launcher_.remove_set(id);
  end_operations(pending, Status::aborted("Process set has been removed"));
}

void Engine::shutdown(std::int32_t rank) {
  news_for_others_ = true;
  shutting_down_ = true;
  const Status status = Status::unknown(
      "Horovod has been shut down. The cause: rank " + std::to_string(rank) +
      " called hvd.shutdown() or ended, so operations that not every rank had submitted by then can't be done.");
  end_operations(submissions_.close(status), status);
}

void Engine::all_drained() {
  news_for_others_ = true;
  stopped_.store(true, std::memory_order_release);
  parts_.control->depart();
  baton_.pulse();
}

void Engine::roll_called() {
  news_for_others_ = true;
  announcer_.plain(wire::Item::kPresent, 0);
}

// --- launches -------------------------------------------------------------------------------------------------------

void Engine::started(const LaunchRun& run) {
  if (!timeline_.active()) return;
  for (const auto& tensor : run.launch().tensors) timeline_.started(tensor->name, run.activity());
}

void Engine::finished(LaunchRun& run, const Status& status, bool is_over) {
  if (is_over && timeline_.active()) {
    for (const auto& tensor : run.launch().tensors) timeline_.ended(tensor->name, tensor->dtype, tensor->shape);
  }
  end_operations(run.operations(), status);
}

void Engine::failed(const LaunchRun& run, const Status& status) {
  suspect(Status(status.code(),
                 "Rank " + std::to_string(parts_.rank) + ": " + run.describe() + " failed: " + status.message() +
                     " The contents of outputs are undefined.",
                 status.rank() >= 0 ? status.rank() : parts_.rank));
}

std::int32_t Engine::joined_device(std::int32_t set) {
  const Operation* join = submissions_.find(set, kJoinName);
  return join == nullptr ? -1 : join->request.device;
}

}  // namespace roda::engine

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
  SetRuntime* set = sets_.at(launch.set).get();
  if (!set->is_member()) return;
  Waiting waiting;
  waiting.set = set;
  waiting.operations.reserve(launch.tensors.size());
  const std::scoped_lock lock(mutex_);
  for (const negotiate::AgreedPtr& tensor : launch.tensors) {
    Operation* op = tensor->cache_bit < 0 ? nullptr : announcer_.settle(launch.set, tensor->cache_bit, tensor->name);
    if (op == nullptr) op = find_operation(launch.set, tensor->name);
    if (op != nullptr) op->launched = true;
    waiting.operations.push_back(op);  // null: this rank joined
  }
  waiting.launch = std::move(launch);
  waiting_.push_back(std::move(waiting));
}

void Engine::refuse(std::int32_t set, const std::string& name, const Status& error) {
  news_for_others_ = true;
  Operation* op = nullptr;
  {
    const std::scoped_lock lock(mutex_);
    op = find_operation(set, name);
  }
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
  Operation* op = nullptr;
  {
    const std::scoped_lock lock(mutex_);
    op = find_operation(set, kJoinName);
  }
  if (op != nullptr) op->value = last_rank;
  end_operations({op}, Status());
}

void Engine::open_set(std::int32_t id, const std::vector<std::int32_t>& ranks) {
  const Topology& topology = parts_.topology;
  SetRuntime::Options options;
  // Ids are used again; the count of sets ever opened is not, and equal on all ranks.
  options.name = parts_.job_key + "/set" + std::to_string(id) + "." + std::to_string(++sets_opened_);
  options.ranks = ranks;
  options.rank = negotiator_.position(id, topology.rank);
  options.shape = Shape(subset(parts_.levels, ranks), options.rank);
  options.generation = parts_.generation;
  options.timeout_ns = static_cast<std::uint64_t>(parts_.knobs.gloo_timeout_seconds) * 1'000'000'000u;
  sets_[id] = std::make_unique<SetRuntime>(std::move(options), parts_.store.get());
  parts_.control->set_added(id, ranks);
  const std::scoped_lock lock(mutex_);
  known_sets_[id] = ranks;
  for (SetChange* change : adding_) {
    if (change->is_done || change->ranks != ranks) continue;
    change->id = id;
    change->is_done = true;
  }
}

void Engine::set_added(std::int32_t id, const std::vector<std::int32_t>& ranks) {
  news_for_others_ = true;
  open_set(id, ranks);
  baton_.pulse();
}

void Engine::set_removed(std::int32_t id) {
  news_for_others_ = true;
  std::vector<Operation*> pending;
  {
    const std::scoped_lock lock(mutex_);
    known_sets_.erase(id);
    for (SetChange* change : removing_) change->is_done = change->is_done || change->id == id;
    for (const auto& [key, op] : in_flight_) {
      if (key.set == id && !op->launched) pending.push_back(op);
    }
    std::erase_if(queue_, [id](const Operation* op) { return op->request.set == id; });
  }
  announcer_.forget_set(id);
  parts_.control->set_removed(id);
  retired_sets_.push_back(std::move(sets_.at(id)));
  ending_sets_.push_back(retired_sets_.back().get());
  sets_.erase(id);
  end_operations(pending, Status::aborted("Process set has been removed"));
  end_removed_sets();
}

bool Engine::is_used(const SetRuntime* set) const {
  const auto uses = [set](const auto& run) { return run->set() == set; };
  return std::any_of(running_.begin(), running_.end(), uses) || (next_run_ != nullptr && uses(next_run_)) ||
         std::any_of(waiting_.begin(), waiting_.end(), [set](const Waiting& w) { return w.set == set; });
}

// After a set's last launch here its communicators go. Other groups stay until the engine ends: peers may not have
// heard all that this rank sent.
void Engine::end_removed_sets() {
  std::erase_if(ending_sets_, [this](SetRuntime* set) {
    if (is_used(set)) return false;
    for (execute::TransportGroup* group : set->communicators()) {
      for (const auto* runs : {&running_, &idle_runs_}) {
        for (const auto& run : *runs) run->forget(*group);
      }
      if (next_run_ != nullptr) next_run_->forget(*group);
    }
    set->end_communicators();
    return true;
  });
}

void Engine::shutdown(std::int32_t rank) {
  news_for_others_ = true;
  shutting_down_ = true;
  const Status status = Status::unknown(
      "Horovod has been shut down. The cause: rank " + std::to_string(rank) +
      " called hvd.shutdown() or ended, so operations that not every rank had submitted by then can't be done.");
  std::vector<Operation*> pending;
  {
    const std::scoped_lock lock(mutex_);
    ended_ = status;
    for (const auto& [key, op] : in_flight_) {
      if (!op->launched) pending.push_back(op);
    }
    queue_.clear();
  }
  end_operations(pending, status);
}

void Engine::all_drained() {
  news_for_others_ = true;
  stopped_.store(true, std::memory_order_release);
  parts_.control->depart();
  baton_.pulse();
}

}  // namespace roda::engine

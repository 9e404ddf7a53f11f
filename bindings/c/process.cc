#include "bindings/c/process.h"

#include <thread>

#include "core/engine/engine.h"
#include "plugins/base/fork_guard.h"

namespace roda {

// The caller is counted before it looks, and whoever frees the engine takes it out of its seat before it looks for
// callers: one of the two sees the other.
EngineRef::EngineRef(EngineSeat& seat, Which which) : seat_(seat) {
  seat_.callers.fetch_add(1, std::memory_order_seq_cst);
  if (which == Which::kLatest || seat_.is_running.load(std::memory_order_acquire)) {
    engine_ = seat_.engine.load(std::memory_order_seq_cst);
  }
}

Status EngineRef::check() const {
  if (is_forked_child()) return Status::precondition(kForked);
  return engine_ != nullptr ? Status() : Status::precondition("Horovod has not been initialized; use hvd.init().");
}

Process& Process::get() {
  // Never destroyed: at exit other threads may still wait for handles, and a forked child must not end its parent's
  // engine.
  static auto* process = new Process;
  return *process;
}

// The engine was shut down, so every call that is inside leaves soon.
void Process::free_engine() {
  EngineSeat& left = seat();
  seat_.store(&left == seats_.data() ? &seats_[1] : seats_.data(), std::memory_order_release);
  left.engine.store(nullptr, std::memory_order_seq_cst);
  while (left.callers.load(std::memory_order_seq_cst) != 0) std::this_thread::yield();
  owned_.reset();
}

Status Process::init(const Members& members, std::vector<std::vector<std::int32_t>> sets, std::uint64_t generation) {
  if (is_forked_child()) return Status::precondition(kForked);
  watch_forks();
  const MutexLock lock(mutex_);
  if (is_running()) return {};
  free_engine();
  std::unique_ptr<engine::Engine> engine;
  generation_ = generation != 0 ? generation : generation_ + 1;
  RODA_RETURN_IF_ERROR(engine::start_engine(members, std::move(sets), generation_, &handles_, &engine));
  owned_ = std::move(engine);
  seat().engine.store(owned_.get(), std::memory_order_seq_cst);
  seat().is_running.store(true, std::memory_order_release);
  return {};
}

void Process::shutdown(const std::string& how) {
  if (is_forked_child()) return;
  const MutexLock lock(mutex_);
  if (!is_running()) return;
  owned_->shutdown(how);
  seat().is_running.store(false, std::memory_order_release);
}

}  // namespace roda

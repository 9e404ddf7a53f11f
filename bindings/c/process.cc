#include "bindings/c/process.h"

#include "core/engine/engine.h"
#include "plugins/base/fork_guard.h"

namespace roda {
Process& Process::get() {
  // Never destroyed: at exit other threads may still wait for handles, and a forked child must not end its parent's
  // engine.
  static auto* process = new Process;
  return *process;
}

Status Process::engine(engine::Engine** out) const {
  if (is_forked_child()) return Status::precondition(kForked);
  *out = running();
  return *out != nullptr ? Status() : Status::precondition("Horovod has not been initialized; use hvd.init().");
}

Status Process::init(const Members& members, std::vector<std::vector<std::int32_t>> sets, std::uint64_t generation) {
  if (is_forked_child()) return Status::precondition(kForked);
  const MutexLock lock(mutex_);
  if (running() != nullptr) return {};
  latest_.store(nullptr, std::memory_order_release);
  owned_.reset();
  std::unique_ptr<engine::Engine> engine;
  generation_ = generation != 0 ? generation : generation_ + 1;
  RODA_RETURN_IF_ERROR(engine::start_engine(members, std::move(sets), generation_, &engine));
  owned_ = std::move(engine);
  latest_.store(owned_.get(), std::memory_order_release);
  running_.store(owned_.get(), std::memory_order_release);
  return {};
}

void Process::shutdown(const std::string& how) {
  if (is_forked_child()) return;
  const MutexLock lock(mutex_);
  if (running() == nullptr) return;
  owned_->shutdown(how);
  running_.store(nullptr, std::memory_order_release);
}

}  // namespace roda

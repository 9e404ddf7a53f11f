// The one engine of this process and who may use it.
#pragma once

#include <atomic>
#include <memory>
#include <vector>

#include "core/bootstrap/join.h"
#include "core/engine/engine.h"
#include "plugins/base/mutex.h"

namespace roda {

inline constexpr const char* kForked =
    "This process was forked from one that runs the engine (a DataLoader worker, for instance); the engine lives in "
    "the parent only. Call collectives there, or start the worker with the 'spawn' method and let it init by itself.";

// Threads: any. init and shutdown wait for one another.
class Process {
 public:
  static Process& get();

  // `generation`: 0 for one more than the last time.
  Status init(const Members& members, std::vector<std::vector<std::int32_t>> sets, std::uint64_t generation);
  void shutdown(const std::string& how);

  // Null before init and after shutdown.
  engine::Engine* running() const { return running_.load(std::memory_order_acquire); }
  // The engine that handles belong to: also after shutdown, until the next init.
  engine::Engine* latest() const { return latest_.load(std::memory_order_acquire); }

  // The engine to submit to, or why there is none.
  Status engine(engine::Engine** out) const;

 private:
  Mutex mutex_;  // init and shutdown
  std::unique_ptr<engine::Engine> owned_ RODA_GUARDED_BY(mutex_);
  std::atomic<engine::Engine*> running_{nullptr};
  std::atomic<engine::Engine*> latest_{nullptr};
  std::uint64_t generation_ RODA_GUARDED_BY(mutex_) = 0;
};

}  // namespace roda

// The one engine of this process, the handles of all engines that it ever had, and who may use them.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "core/bootstrap/join.h"
#include "core/engine/engine.h"
#include "core/submit/operation.h"
#include "plugins/base/mutex.h"

namespace roda {

inline constexpr const char* kForked =
    "This process was forked from one that runs the engine (a DataLoader worker, for instance); the engine lives in "
    "the parent only. Call collectives there, or start the worker with the 'spawn' method and HOROVOD_SIZE=1 in its "
    "environment.";

// Where an engine stands, and how many calls are inside. Never freed.
struct EngineSeat {
  std::atomic<engine::Engine*> engine{nullptr};  // from its start to the next init
  std::atomic<bool> is_running{false};           // from its start to its shutdown
  std::atomic<std::uint32_t> callers{0};
};

// A call's hold on the engine, which is not freed before the call lets go. Null: there is no engine. Any thread.
class EngineRef {
 public:
  enum class Which : std::uint8_t { kRunning, kLatest };
  EngineRef(EngineSeat& seat, Which which);
  ~EngineRef() { seat_.callers.fetch_sub(1, std::memory_order_release); }
  EngineRef(const EngineRef&) = delete;
  EngineRef& operator=(const EngineRef&) = delete;

  engine::Engine* get() const { return engine_; }
  engine::Engine* operator->() const { return engine_; }
  engine::Engine& operator*() const { return *engine_; }
  explicit operator bool() const { return engine_ != nullptr; }
  // Why operations can't be asked for.
  Status check() const;

 private:
  EngineSeat& seat_;
  engine::Engine* engine_ = nullptr;
};

// Threads: any. init and shutdown wait for one another.
class Process {
 public:
  static Process& get();

  // `generation`: 0 for one more than the last time. Blocks also until no call is inside the engine before.
  Status init(const Members& members, std::vector<std::vector<std::int32_t>> sets, std::uint64_t generation);
  void shutdown(const std::string& how);

  bool is_running() const { return seat().is_running.load(std::memory_order_acquire); }
  // Null before init and after shutdown.
  EngineRef running() const { return {seat(), EngineRef::Which::kRunning}; }
  // The engine of handles that are not done: also after shutdown, until the next init.
  EngineRef latest() const { return {seat(), EngineRef::Which::kLatest}; }

  // The handles of all engines: a number is never given twice, and a handle lives until its release.
  engine::HandleTable& handles() { return handles_; }

 private:
  EngineSeat& seat() const { return *seat_.load(std::memory_order_acquire); }
  void free_engine() RODA_REQUIRES(mutex_);

  Mutex mutex_;  // init and shutdown
  std::unique_ptr<engine::Engine> owned_ RODA_GUARDED_BY(mutex_);
  // In turn: calls that come while an engine is freed sit in the other seat, and are not waited for.
  std::array<EngineSeat, 2> seats_;
  std::atomic<EngineSeat*> seat_{seats_.data()};
  engine::HandleTable handles_;  // locks itself
  std::uint64_t generation_ RODA_GUARDED_BY(mutex_) = 0;
};

}  // namespace roda

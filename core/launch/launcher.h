// The launches of this rank on their way, over all of its process sets: from the moment they are agreed, in the log's
// order, to the end of their last collective.
//
// Owned by the holder of the baton.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "core/execute/device_queue.h"
#include "core/launch/launch_run.h"
#include "core/launch/set_runtime.h"
#include "core/negotiate/negotiator.h"
#include "core/plan/planner.h"
#include "plugins/base/coarse_clock.h"
#include "plugins/base/kept_queue.h"

namespace roda::engine {

// The engine's streams on the devices that this rank's tensors lie on, each with buffers for what is put on it: the
// stream's order keeps those who use them apart.
class DeviceStreams {
 public:
  // `device`: of the memory that is not the host's; null: there is none here. `most`: streams of each device, which
  // launches take in turn.
  DeviceStreams(const roda_device* device, int most) : device_(device), most_(static_cast<std::size_t>(most)) {}
  // Nothing may be under way.
  ~DeviceStreams();
  DeviceStreams(const DeviceStreams&) = delete;
  DeviceStreams& operator=(const DeviceStreams&) = delete;

  // The stream for the launch of that number in its set, which all ranks of the set agree on, and its buffers.
  Status find(std::int32_t number, std::uint64_t launch, execute::DeviceQueue* queue, StreamBuffers** buffers);
  // As PayloadBuffers::forget.
  void forget(execute::TransportGroup& group);
  // Nothing is under way, and nothing comes any more.
  void free_buffers();

 private:
  struct Lane {
    void* stream = nullptr;
    StreamBuffers buffers;
  };
  struct OfDevice {
    std::vector<std::unique_ptr<Lane>> lanes;
    execute::DeviceCommons commons;
  };
  const roda_device* device_;
  std::size_t most_;
  std::map<std::int32_t, OfDevice> devices_;  // by number
};

class Launcher {
 public:
  // The owner is told of what happens to launches.
  class Owner {
   public:
    virtual ~Owner() = default;
    // A transport is used for the first time.
    virtual Status context_made(execute::TransportContext& context) = 0;
    virtual void started(const LaunchRun& run) = 0;
    // Its operations end, with an error that every rank comes to by itself, or with none. Where its work lies on a
    // stream the run goes on, and is over later.
    virtual void finished(LaunchRun& run, const Status& status, bool is_over) = 0;
    // The job has to end: other ranks can't know of the error. The run stays until abort().
    virtual void failed(const LaunchRun& run, const Status& status) = 0;
    // The last launch of that removed set has ended on this rank, which is a member.
    virtual void set_left(std::uint64_t number) = 0;
    // Where a rank that has joined the set has its tensors; -1: not known.
    virtual std::int32_t joined_device(std::int32_t set) = 0;
  };
  struct Options {
    const roda_host* host = nullptr;
    const roda_device* device = nullptr;  // null: none is usable here
    int streams = 1;                      // of a device
    std::int32_t local_rank = 0;
    // Operations end when their work lies on the stream; nothing: those that say that they go on in its order.
    std::optional<bool> end_on_stream;
  };
  // All of that outlives it.
  Launcher(Owner* owner, Planner* planner, Store* store, const Options& options);

  // --- process sets ---
  void open_set(std::int32_t id, SetRuntime::Options options);
  // The set's launches that are under way go on, up to Owner::set_left().
  void remove_set(std::int32_t id);
  // The set of that number, once set_left() was told on all its members: its groups go as soon as what they sent does
  // not need them.
  void end_set(std::uint64_t number);
  SetRuntime& set(std::int32_t id) { return *sets_.at(id); }
  Status lend(std::int32_t set, std::size_t bytes, execute::LentMemory** memory) {
    const auto found = sets_.find(set);
    if (found == sets_.end()) return Status::unavailable("there is no such process set");
    return found->second->lend(bytes, memory);
  }
  const std::map<std::int32_t, std::unique_ptr<SetRuntime>>& sets() const { return sets_; }
  Contexts& contexts() { return contexts_; }
  const Contexts& contexts() const { return contexts_; }

  // --- launches ---
  // Whether launches that begin from now on note how long their parts take.
  void note_parts(bool on) { notes_parts_ = on; }
  // Operations: one per tensor; null where this rank has joined. Both are swapped for others, whose memory may be used.
  void add(negotiate::Launch& launch, std::vector<Operation*>& operations);
  // Starts what may start and moves on what runs. True when something moved.
  bool advance();
  // With nothing running: what has ended may still need this process to leave it. True when something moved.
  bool settle();
  bool busy() const { return !waiting_.empty() || !running_.empty() || next_run_ != nullptr; }
  // The transports need progress: something runs, or what has ended has not left this process yet.
  bool moves_data() const { return busy() || !contexts_.are_settled(); }
  // A run whose groups form; null: none.
  LaunchRun* connecting() const {
    return next_run_ != nullptr && !next_run_->is_connected() ? next_run_.get() : nullptr;
  }
  bool is_on_device() const;
  // A launch that has not moved for so long; null: none. The caller asks from time to time: each call notes what has
  // moved since the last one.
  const LaunchRun* find_overdue(CoarseClock::time_point now, CoarseClock::duration on_host,
                                CoarseClock::duration on_device);

  // Ends everything with `cause`, until nothing reaches the operations' buffers any more. What can't be ended in time
  // is returned; null: nothing.
  const LaunchRun* abort(const Status& cause, std::chrono::steady_clock::time_point deadline);
  // Nothing is busy: before the engine goes.
  void clear();

 private:
  struct Waiting {
    negotiate::Launch launch;
    std::vector<Operation*> operations;
    SetRuntime* set = nullptr;  // lives on among those that leave when the set is removed meanwhile
  };
  struct Leaving {
    std::unique_ptr<SetRuntime> set;
    bool is_told = false;    // of its last launch here
    bool has_ended = false;  // on all members
  };
  std::int32_t device_of(const Waiting& waiting);
  bool may_start(const LaunchRun& next) const;
  Status begin_next();
  bool start_launches();
  Status show_new_contexts();
  void end_run(std::unique_ptr<LaunchRun> run, const Status& status);
  bool is_used(const SetRuntime* set) const;
  void tell_of_left_sets();
  void free_ended_sets();

  Owner* owner_;
  Planner* planner_;
  Store* store_;
  const std::optional<bool> end_on_stream_;
  Contexts contexts_;
  std::size_t shown_contexts_ = 0;
  bool notes_parts_ = false;
  DeviceStreams streams_;
  std::int32_t last_device_;  // that a tensor of this rank lay on; where it supplies zeros when it has joined
  std::map<std::int32_t, std::unique_ptr<SetRuntime>> sets_;
  std::vector<Leaving> leaving_;                     // removed sets
  KeptQueue<Waiting> waiting_;                       // launched, not started here
  std::vector<std::unique_ptr<LaunchRun>> running_;  // in launch order
  std::vector<std::unique_ptr<LaunchRun>> idle_runs_;
  std::unique_ptr<LaunchRun> next_run_;  // from the front of waiting_: its group forms, or it waits for others
};

}  // namespace roda::engine

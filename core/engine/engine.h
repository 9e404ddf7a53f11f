// The engine of one process: submissions in, completions out.
//
// One thread at a time holds the engine's state (see Baton and docs/architecture.md): the engine's own thread, a thread
// that waits for a handle, or, for the moment it takes to put an announcement into the log, a thread that submits.
// Members are grouped below by who may touch them.
#pragma once

#include <roda/abi/bootstrap.h>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "algorithms/topology/topology.h"
#include "core/bootstrap/join.h"
#include "core/bootstrap/store.h"
#include "core/control/control_plane.h"
#include "core/engine/baton.h"
#include "core/engine/bucket_demand.h"
#include "core/engine/holder_watch.h"
#include "core/engine/last_ranks.h"
#include "core/engine/roll_call.h"
#include "core/knobs/knobs.h"
#include "core/launch/launcher.h"
#include "core/negotiate/negotiator.h"
#include "core/observe/flight_recorder.h"
#include "core/observe/stall_watch.h"
#include "core/observe/timeline.h"
#include "core/plan/planner.h"
#include "core/submit/announcer.h"
#include "core/submit/operation.h"
#include "core/submit/submissions.h"
#include "core/tune/tuner.h"
#include "plugins/base/coarse_clock.h"
#include "plugins/base/invariant.h"
#include "plugins/base/mutex.h"
#include "plugins/base/wait_policy.h"

namespace roda::engine {

// Everything that starting an engine needs, made by bootstrap (see start_engine).
struct Parts {
  Knobs knobs;
  Topology topology;
  std::string address;        // where other hosts reach this one; empty: not known
  int rank = 0;               // this one's
  int host_cores = 1;         // that the ranks of this host have between them
  bool has_core_each = true;  // no rank of this machine need share a core
  std::unique_ptr<Store> store;
  std::unique_ptr<control::ControlPlane> control;
  std::unique_ptr<Planner> planner;
  Bells bells;
  const roda_host* host = nullptr;
  const roda_device* device = nullptr;        // of memory that is not the host's; null: none is usable here
  const roda_bootstrap* bootstrap = nullptr;  // brought the ranks together; null: our own rendezvous did
  std::vector<std::vector<std::int32_t>> static_sets;
  std::string job_key;  // prefix of names that must be unique per job generation
  std::uint64_t generation = 0;
  HandleTable* handles = nullptr;  // of the process
};

class Engine final : private negotiate::Outcome, private Launcher::Owner {
 public:
  explicit Engine(Parts parts);
  // After shutdown().
  ~Engine() override;
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  // --- any thread ---
  const Topology& topology() const { return parts_.topology; }
  int rank() const { return parts_.rank; }
  int host_cores() const { return parts_.host_cores; }
  const Knobs& knobs() const { return parts_.knobs; }
  const Planner& planner() const { return *parts_.planner; }
  // The device whose memory tensors may lie in besides the host's; null: none is usable here.
  const roda_device* device() const { return parts_.device; }

  // With the control planes of other hosts.
  control::HostLinks::Traffic control_traffic() const { return parts_.control->traffic(); }

  // Queues the operations of one handle as a group: all or none. Their requests are complete but for the rank.
  // `will_wait`: the caller waits right after.
  Status submit(HandleState* handle, bool will_wait);
  Producers& producers() { return submissions_.producers(); }
  // Blocks until the handle is done, or for so many microseconds (-1: without a limit); drives the engine meanwhile if
  // nobody else does. Whether it is done.
  bool wait(HandleState* handle, std::int64_t limit_us);
  // Whether somebody will be called when the handle is done, after which the handle is released. False: the handle is
  // done already.
  bool then(HandleState* handle, const Continuation& continuation);

  // The latest rank that all were told to be late, and how many such there were.
  std::pair<std::uint64_t, negotiate::Lateness> late_rank() const { return last_ranks_.told(); }
  void collected(std::int64_t nanoseconds) { last_ranks_.collected(nanoseconds); }

  // For the flight recorder: the line of the program at which a thread waits; "": no longer.
  void note_line(std::string_view line) const { observe::note_line(parts_.control->room(), line); }

  // Memory that the set's members reach where it lies, as far as the set's operations up to now have connected them;
  // RODA_ERR_UNAVAILABLE where there is none, or the transport's reason. Done by whoever drives the engine; blocks.
  Status lend(std::int32_t set, std::size_t bytes, execute::LentMemory** memory);

  // What messages in wire formats have lost so far is forgotten. Each rank by itself.
  void reset_wire_residuals() { residuals_.resets.fetch_add(1, std::memory_order_relaxed); }

  // Collective over all ranks; block until every rank has asked for the same.
  Status add_set(std::vector<std::int32_t> ranks, std::int32_t* id);
  Status remove_set(std::int32_t id);
  // Whether there is a set of these sorted ranks. Blocks while another thread removes it: who adds it next, on whatever
  // rank, may have seen it gone before this rank does.
  bool has_set(const std::vector<std::int32_t>& ranks);
  // Members of a set, ascending; empty: no such set.
  std::vector<std::int32_t> set_ranks(std::int32_t id) const { return submissions_.set_ranks(id); }
  std::vector<std::int32_t> set_ids() const { return submissions_.set_ids(); }
  // The set's size and the place of a world rank in it (-1: not a member). False: no such set. Allocates nothing.
  bool find_member(std::int32_t id, std::int32_t rank, int* size, int* position) const {
    if (id != 0) return submissions_.find_member(id, rank, size, position);
    *size = parts_.topology.size();  // the job's own set stays as it is
    *position = rank >= 0 && rank < *size ? rank : -1;
    return true;
  }

  // 1; -2 when HOROVOD_TIMELINE was not set. Rank 0 writes the file, or every rank its own, whose number stands in the
  // place of "{rank}".
  int start_timeline(const std::string& path, bool mark_cycles);
  int stop_timeline();

  // Ends the engine on every rank; blocks until this one has ended. Idempotent. `how` this rank came to it is told to
  // those that still wait: "called hvd.shutdown()".
  void shutdown(const std::string& how);
  // Ends the job on every rank for the cause that this one's program can't go on: "ended with ValueError: ...". Blocks
  // until this rank's engine has ended, or HOROVOD_ABORT_TIMEOUT_SECONDS are over; shutdown() still follows.
  void abort(const std::string& how);
  // The cause that ended the engine, or will end it; OK while nothing does.
  Status end_cause() const { return submissions_.closed(); }
  // Waits until the process of another rank is gone, for so many microseconds at most. Null: it runs on another host,
  // and nobody here sees its end.
  std::optional<bool> await_process_end(std::int32_t rank, std::int64_t limit_us) const;

 private:
  using Clock = std::chrono::steady_clock;

  // --- negotiate::Outcome: the holder of the baton, while it applies the log ---
  void announced(const std::string& name, int collective, std::span<const wire::RankRange> ranks) override
      RODA_REQUIRES(baton_);
  void complete(const negotiate::Agreed& tensor, std::int32_t last) override RODA_REQUIRES(baton_);
  void late(const negotiate::Lateness& found) override RODA_REQUIRES(baton_);
  void launch(negotiate::Launch& launch) override RODA_REQUIRES(baton_);
  void refuse(std::int32_t set, const std::string& name, const Status& error) override RODA_REQUIRES(baton_);
  void announce_again(std::int32_t set, int bit) override RODA_REQUIRES(baton_);
  void bit_freed(std::int32_t set, int bit) override RODA_REQUIRES(baton_);
  void round_over(std::int32_t set, int bit) override;
  void disputed(std::int32_t set, int bit) override;
  void join_done(std::int32_t set, std::int32_t last_rank) override RODA_REQUIRES(baton_);
  void set_added(std::int32_t id, const std::vector<std::int32_t>& ranks) override RODA_REQUIRES(baton_);
  void set_removed(std::int32_t id) override RODA_REQUIRES(baton_);
  void set_ended(std::uint64_t number) override RODA_REQUIRES(baton_);
  void shutdown(std::int32_t rank, const std::string& how) override RODA_REQUIRES(baton_);
  void all_drained() override RODA_REQUIRES(baton_);
  void roll_called() override RODA_REQUIRES(baton_) {
    news_for_others_ = true;
    announcer_.record().plain(wire::Item::kPresent, 0);
  }
  void tuned(const negotiate::Tuning& tuning) override RODA_REQUIRES(baton_);
  void present(std::int32_t rank) override RODA_REQUIRES(baton_) { roll_call_.answered(rank); }

  // --- Launcher::Owner: likewise, while it advances launches ---
  Status context_made(execute::TransportContext& context) override RODA_REQUIRES(baton_);
  void started(const LaunchRun& run) override RODA_REQUIRES(baton_);
  void finished(LaunchRun& run, const Status& status, bool is_over) override RODA_REQUIRES(baton_);
  void failed(const LaunchRun& run, const Status& status) override RODA_REQUIRES(baton_);
  void set_left(std::uint64_t number) override RODA_REQUIRES(baton_) {
    announcer_.record().number(wire::Item::kSetEnded, 0, number);
  }
  std::int32_t joined_device(std::int32_t set) override RODA_REQUIRES(baton_);

  // A spinning turn of drive() takes as long as about this many of the waiting policy's iterations; the first count
  // makes the policy's yields fall on turns. A turn that yields is one iteration.
  static constexpr std::uint32_t kSpinningTurn = 16;
  static constexpr int kLooksPerTurn = 4;
  std::uint32_t turn() const { return wait_policy_.spins() ? kSpinningTurn : 1; }
  std::uint32_t first_turn() const { return turn() - 1; }
  // Idle turns after which a thread is said to wait: a shorter wait is not worth a look at the clock.
  std::uint32_t noticed_turn() const { return first_turn() + 4 * turn(); }
  void note_idle() RODA_REQUIRES(baton_) {
    if (!launcher_.busy()) last_ranks_.idle();
  }
  static constexpr std::uint32_t kSpunEnough = UINT32_MAX - kSpinningTurn;  // an idle turn that is not worth it
  // After a turn in which nothing moved; true: something has, and the next turn deals with it. While every rank has a
  // core it spins, with a few looks for what the engine mostly waits for, each at a fraction of a turn's cost. But the
  // kernel may put two ranks on one core for a while, and then spinning only keeps the other from what this one waits
  // for.
  bool idle_turn(std::uint32_t idle) RODA_REQUIRES(baton_) {
    const int looks = wait_policy_.spins() && ending_.cause.ok() ? kLooksPerTurn : 0;
    for (int look = 0; look < looks; ++look, WaitPolicy::pause()) {
      if (launcher_.busy() && launcher_.advance()) return true;
      if (parts_.control->may_have_news() || submissions_.has_news(std::memory_order_acquire)) return false;
    }
    if (wait_policy_.spins() && parts_.control->shares_core()) {
      WaitPolicy::yield();
    } else {
      wait_policy_.relax(idle);
    }
    return false;
  }

  void run();  // the engine's thread
  void start();
  void pin();        // that thread, where the user asked for it
  void call_back();  // the thread of continuations

  // --- the holder of the baton ---
  // One turn. True when something moved.
  bool drive() RODA_REQUIRES(baton_);
  bool announce() RODA_REQUIRES(baton_);
  // One look at the clock for all that a turn does.
  CoarseClock::time_point turn_time() RODA_REQUIRES(baton_) {
    if (turn_time_ == CoarseClock::time_point{}) turn_time_ = CoarseClock::now();
    return turn_time_;
  }
  bool apply_log() RODA_REQUIRES(baton_);
  void put_in_log() RODA_REQUIRES(baton_);
  void end_operations(const std::vector<Operation*>& operations, const Status& status) RODA_REQUIRES(baton_);
  void end_or_call_roll(const Status& cause) RODA_REQUIRES(baton_);
  void watch_deadlines() RODA_REQUIRES(baton_);
  void watch_stalls() RODA_REQUIRES(baton_);
  void watch_own_waits() RODA_REQUIRES(baton_);
  struct WaitLimit {
    std::chrono::seconds time;
    const char* setting;  // that the time is from
  };
  std::optional<WaitLimit> wait_limit() const;
  void fail(const Status& cause) RODA_REQUIRES(baton_);
  // This process ends right after; the thread need not hold the baton.
  RODA_UNCHECKED void broken(const std::string& sentence);
  RODA_UNCHECKED void give_up(const char* transport);
  Status watch_holder(const char* transport) RODA_REQUIRES(baton_);
  void save_flight(const Status& cause) const;
  // Tensors that every rank has wait for others to join them, and for somebody to look at the clock.
  bool holds_ready() const RODA_REQUIRES(baton_);
  // Publishes that this rank is about to sleep and looks once more. False: there is news, don't.
  bool arm() RODA_REQUIRES(baton_);
  void disarm() RODA_REQUIRES(baton_);
  // Sleeps as the holder of the baton until there is news or a deadline is near; returns at once when there is news
  // already. sleep() and turn_after_sleep() return the number of the idle turn that comes next.
  std::uint32_t sleep(int limit_ms) RODA_REQUIRES(baton_);  // -1: until something rings
  std::uint32_t turn_after_sleep(bool rang) RODA_REQUIRES(baton_);
  int timeout_ms() const RODA_REQUIRES(baton_);
  void leave() RODA_RELEASE(baton_);  // drop the baton as a waiter
  void let_go(bool work) RODA_RELEASE(baton_);
  void open_set(std::int32_t id, const std::vector<std::int32_t>& ranks) RODA_REQUIRES(baton_);
  void say_finished(bool only_where_wanted) RODA_REQUIRES(baton_);
  void hold_ready_tensors() RODA_REQUIRES(baton_);
  void close_buckets() RODA_REQUIRES(baton_);
  void watch_for_tuner(const negotiate::Launch& launch) RODA_REQUIRES(baton_);

  struct Ending {
    bool is_asked = false;    // a shutdown stands in the log
    bool is_drained = false;  // this rank has said that it has nothing under way
    Status cause;             // of a failure
  };

  // --- waiting threads ---
  class Limit;  // on a wait's time
  bool take_or_wait(auto done, const Limit& limit) RODA_TRY_ACQUIRE(true, baton_);
  void drive_until(auto done, std::int64_t limit_us = -1);
  Status await(const SetChange& change);

  // --- any thread ---
  // After something was queued. A holder that is awake looks at the queue before it sleeps or lets go.
  void wake_holder() {
    if (baton_.holder_sleeps()) bells_.wake_holder();
  }

  Parts parts_;
  WaitPolicy wait_policy_;
  observe::Timeline timeline_;  // locks itself
  Baton baton_;
  Submissions submissions_;  // locks itself
  Bells bells_;

  // Written by the holder of the baton, read by anybody.
  // Somebody rang, or nobody has armed the bells yet: look at every descriptor in the next turn.
  std::atomic<bool> look_closely_{true};
  std::atomic<bool> stopped_{false};  // every rank has drained, or the job was aborted

  negotiate::Negotiator negotiator_ RODA_GUARDED_BY(baton_);
  Announcer announcer_ RODA_GUARDED_BY(baton_);
  ResidualBudget residuals_;  // outlives the launcher
  Launcher launcher_ RODA_GUARDED_BY(baton_);
  // Kept for their memory.
  Submissions::News news_ RODA_GUARDED_BY(baton_);
  std::vector<Operation*> launched_ RODA_GUARDED_BY(baton_);
  std::vector<std::byte> record_ RODA_GUARDED_BY(baton_);
  // The record being applied changed something for sleeping ranks.
  bool news_for_others_ RODA_GUARDED_BY(baton_) = false;
  Hold hold_ RODA_GUARDED_BY(baton_);
  BucketDemand demand_ RODA_GUARDED_BY(baton_);
  CoarseClock::time_point next_deadline_look_ RODA_GUARDED_BY(baton_){};
  RollCall roll_call_ RODA_GUARDED_BY(baton_);
  observe::FlightRecorder recorder_ RODA_GUARDED_BY(baton_);
  LastRanks last_ranks_;                                         // but for what it was told, of the holder of the baton
  CoarseClock::time_point turn_time_ RODA_GUARDED_BY(baton_){};  // zero: not looked at in this turn
  observe::StallWatch stall_watch_ RODA_GUARDED_BY(baton_);
  std::unique_ptr<tune::Tuner> tuner_ RODA_GUARDED_BY(baton_);  // rank 0's, while it tunes
  Ending ending_ RODA_GUARDED_BY(baton_);

  const InvariantListener invariants_{
      [](void* engine, const std::string& sentence) { static_cast<Engine*>(engine)->broken(sentence); }, this};
  std::thread thread_;
  std::optional<HolderWatch> watch_;  // once a transport without RODA_CAP_FAULT_TOLERANT is used
};

// From nothing to a running engine. Collective over the job, which is `members` of what the launcher started: every
// rank gets an engine, or every rank that is still there gets an error. `generation`, the same on all ranks, tells this
// start from those before and after it. `static_sets`: process sets as the caller listed them; sorted here, and refused
// when a rank is out of range or named twice. `handles`: they outlive the engine. Blocks.
Status start_engine(const Members& members, std::vector<std::vector<std::int32_t>> static_sets,
                    std::uint64_t generation, HandleTable* handles, std::unique_ptr<Engine>* engine);

// With that fusion threshold, where plans go by those rules (PlanQuery::rules); equal on all ranks.
negotiate::BucketRules bucket_rules(const Parts& parts, std::size_t threshold, std::uint32_t rules = 0);

// Null: this rank has nothing to tune, or nothing is to be tuned.
std::unique_ptr<tune::Tuner> make_tuner(const Parts& parts);

}  // namespace roda::engine

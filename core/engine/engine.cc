#include "core/engine/engine.h"

#include <algorithm>

#include "plugins/base/log.h"

namespace roda::engine {
namespace {

negotiate::Settings settings_of(const Parts& parts) {
  negotiate::Settings s;
  s.size = parts.topology.size();
  s.cache_capacity = parts.knobs.cache_capacity;
  s.buckets.threshold = static_cast<std::size_t>(parts.knobs.fusion_threshold);
  s.buckets.adasum_apart = parts.knobs.deterministic;
  s.buckets.groups_apart = parts.knobs.disable_group_fusion;
  PlanQuery large;
  large.bytes = s.buckets.threshold;
  large.size = s.size;
  large.hosts = static_cast<int>(parts.topology.hosts.size());
  if (parts.planner->fuses_without_copies(large)) s.buckets.limit = s.buckets.threshold;
  s.outstanding = parts.knobs.outstanding_buckets;
  s.hold = parts.knobs.cycle_time_ms.has_value() && *parts.knobs.cycle_time_ms > 0;
  return s;
}

}  // namespace

Engine::Engine(Parts parts)
    : parts_(std::move(parts)),
      wait_policy_(parts_.has_core_each),
      bells_(std::move(parts_.bells)),
      negotiator_(settings_of(parts_), parts_.rank),
      announcer_(negotiator_, parts_.rank),
      launcher_(this, parts_.planner.get(), parts_.store.get(),
                {parts_.host, parts_.device, parts_.knobs.num_nccl_streams,
                 parts_.topology.rank(parts_.rank).local_rank, parts_.knobs.enable_async_completion}),
      roll_call_(parts_.rank, parts_.topology.size(), parts_.control->way_up()),
      stall_watch_(std::chrono::seconds(parts_.knobs.stall_check_seconds),
                   std::chrono::seconds(parts_.knobs.stall_shutdown_seconds)) {
  static_cast<void>(bells_.watch(parts_.control->fd()));
  open_set(0, negotiator_.members(0));
  for (const auto& ranks : parts_.static_sets) open_set(negotiator_.add_static_set(ranks), ranks);
  const std::string& timeline = parts_.knobs.timeline;
  if (!timeline.empty() && timeline != "DYNAMIC") start_timeline(timeline, parts_.knobs.timeline_mark_cycles);
  thread_ = std::thread([this] { run(); });
}

Engine::~Engine() {
  if (thread_.joinable()) thread_.join();
  launcher_.clear();
}

// --- submitting -----------------------------------------------------------------------------------------------------

Status Engine::submit(HandleState* handle, bool will_wait) {
  RODA_RETURN_IF_ERROR(submissions_.add(handle, parts_.rank));
  if (will_wait) {
    wake_holder();
  } else {
    poke();
  }
  return {};
}

// After something was queued. A holder that is awake looks at the queue before it sleeps or lets go.
void Engine::wake_holder() {
  if (asleep_.load(std::memory_order_seq_cst)) bells_.wake_holder();
}

// The announcement goes into the log on this very thread where it can: no other thread need wake for a tensor that the
// other ranks don't have yet.
void Engine::poke() {
  if (!baton_.try_take()) {
    wake_holder();
    return;
  }
  announce();
  // Between hosts what was said still has to leave. An error is kept by the control plane and met in the next turn.
  static_cast<void>(parts_.control->service(false));
  apply_log();
  // A record that another rank is still writing hides those behind it, this rank's own decisive word perhaps, for which
  // nobody would ring.
  const bool work = launcher_.moves_data() || holds_ready() || parts_.control->pending() ||
                    parts_.control->holds_record() || shutting_down_ || stopped_.load(std::memory_order_acquire);
  let_go(work);
}

// Whoever drops the baton sees to it that somebody does what is left.
void Engine::let_go(bool work) {
  baton_.drop();
  // The engine's thread may have been woken meanwhile, found the baton taken and gone back to sleep: it left a mark.
  if (work || submissions_.has_news() || look_closely_.load(std::memory_order_seq_cst)) {
    bells_.wake_engine();
  }
}

// --- waiting --------------------------------------------------------------------------------------------------------

class Engine::Limit {
 public:
  explicit Limit(int milliseconds) : is_set_(milliseconds >= 0) {
    if (is_set_) end_ = Clock::now() + std::chrono::milliseconds(milliseconds);
  }
  // Cheap enough for every turn: the clock is read now and then. Once over, always over.
  bool is_over() {
    if (is_set_ && !is_over_ && ++looks_ % 256 == 0) is_over_ = Clock::now() >= end_;
    return is_over_;
  }
  // -1: no limit.
  int left_ms() const {
    if (!is_set_) return -1;
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(end_ - Clock::now()).count();
    return static_cast<int>(std::max<std::int64_t>(left, 0));
  }

 private:
  bool is_set_;
  bool is_over_ = false;
  std::uint32_t looks_ = 0;
  Clock::time_point end_;
};

// Takes the baton, or waits for news. True when it was taken. The analysis does not follow what `taken` knows.
template <typename Done>
RODA_UNCHECKED bool Engine::take_or_wait(Done done, const Limit& limit) {
  if (baton_.try_take()) return true;
  baton_.want();
  bool taken = false;
  for (std::uint32_t i = 0; !taken && !done() && wait_policy_.worth_spinning(i); ++i) {
    wait_policy_.relax(i);
    taken = baton_.try_take();
  }
  if (!taken && !done()) {
    const std::uint32_t seen = baton_.read_pulse();
    taken = baton_.try_take();
    if (!taken && !done()) baton_.wait_pulse(seen, limit.left_ms());
  }
  baton_.unwant();
  if (!taken) bells_.wake_engine();  // it may have let go for this thread's sake
  return taken;
}

template <typename Done>
void Engine::drive_until(Done done, int limit_ms) {
  Limit limit(limit_ms);
  const auto is_over = [&] { return done() || limit.is_over(); };
  while (!is_over()) {
    if (!take_or_wait(is_over, limit)) continue;
    disarm();
    for (std::uint32_t idle = first_turn(); !is_over();) {
      if (drive()) {
        idle = first_turn();
      } else if (wait_policy_.worth_spinning(idle)) {
        idle_turn(idle);
        idle += turn();
      } else {
        sleep(limit.left_ms());
        idle = first_turn();
      }
    }
    leave();
  }
}

bool Engine::wait(HandleState* handle, int limit_ms) {
  drive_until([handle] { return handle->done(); }, limit_ms);
  return handle->done();
}

// What is left to do goes to the engine's own thread; with nothing to do it goes on sleeping. News that only needs to
// be noted is noted here: waking a thread for it would cost more, and take a core from a rank that needs it.
void Engine::leave() {
  bool work = true;
  for (int turn = 0; turn < 8 && !launcher_.busy() && !holds_ready() && !parts_.control->holds_record() &&
                     !stopped_.load(std::memory_order_acquire);
       ++turn) {
    // What has ended and not yet left mostly does so at once; arming for it would cost more than these turns.
    work = launcher_.moves_data() || !arm() || submissions_.has_news();
    if (!work) break;
    drive();
  }
  let_go(work);
}

// --- process sets, shutdown -----------------------------------------------------------------------------------------

Status Engine::add_set(std::vector<std::int32_t> ranks, std::int32_t* id) {
  SetChange change{std::move(ranks)};
  RODA_RETURN_IF_ERROR(submissions_.add_change(&change));
  RODA_RETURN_IF_ERROR(await(change));
  *id = change.id;
  return {};
}

Status Engine::remove_set(std::int32_t id) {
  SetChange change{{}, id};
  RODA_RETURN_IF_ERROR(submissions_.add_change(&change));
  return await(change);
}

Status Engine::await(const SetChange& change) {
  wake_holder();
  drive_until([&] { return submissions_.is_over(change); });
  return submissions_.end_change(&change);
}

bool Engine::has_set(const std::vector<std::int32_t>& ranks) {
  bool found = false;
  drive_until([&] {
    bool is_leaving = false;
    found = submissions_.has_set(ranks, &is_leaving);
    return !is_leaving;
  });
  return found;
}

int Engine::start_timeline(const std::string& path, bool mark_cycles) {
  if (parts_.knobs.timeline.empty()) return -2;
  if (parts_.rank != 0) return 1;
  // The job does not depend on its trace: it goes on without.
  if (const Status s = timeline_.open(path, mark_cycles); !s.ok()) RODA_LOG(error, "{}", s.message());
  return 1;
}

int Engine::stop_timeline() {
  if (parts_.knobs.timeline.empty()) return -2;
  return 1;
}

void Engine::shutdown() {
  submissions_.ask_for_shutdown();
  wake_holder();
  drive_until([this] { return stopped_.load(std::memory_order_acquire); });
  bells_.wake_engine();
  if (thread_.joinable()) thread_.join();
  timeline_.close();
}

// --- completing -----------------------------------------------------------------------------------------------------

void Engine::end_operations(const std::vector<Operation*>& operations, const Status& status) {
  submissions_.end(operations, status);
  baton_.pulse();
}

}  // namespace roda::engine

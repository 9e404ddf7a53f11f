#include "core/engine/engine.h"

#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "plugins/base/log.h"

namespace roda::engine {
namespace {

negotiate::Settings settings_of(const Parts& parts) {
  negotiate::Settings s;
  s.size = parts.topology.size;
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
      wait_policy_(parts_.control->wait_policy()),
      negotiator_(settings_of(parts_), parts_.topology.rank),
      announcer_(negotiator_, parts_.topology.rank),
      contexts_(parts_.host),
      streams_(parts_.device, parts_.knobs.num_nccl_streams),
      last_device_(parts_.topology.local_rank),
      stall_watch_(std::chrono::seconds(parts_.knobs.stall_check_seconds),
                   std::chrono::seconds(parts_.knobs.stall_shutdown_seconds)),
      engine_poll_(epoll_create1(EPOLL_CLOEXEC)),
      engine_wake_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
      holder_poll_(epoll_create1(EPOLL_CLOEXEC)),
      holder_wake_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  for (const auto& [poll, wake] : {std::pair(&engine_poll_, &engine_wake_), std::pair(&holder_poll_, &holder_wake_)}) {
    epoll_event event{};
    event.events = EPOLLIN;
    event.data.fd = wake->get();
    epoll_ctl(poll->get(), EPOLL_CTL_ADD, wake->get(), &event);
  }
  static_cast<void>(watch(parts_.control->fd()));
  open_set(0, negotiator_.members(0));
  for (const auto& ranks : parts_.static_sets) open_set(negotiator_.add_static_set(ranks), ranks);
  const std::string& timeline = parts_.knobs.timeline;
  if (!timeline.empty() && timeline != "DYNAMIC") start_timeline(timeline, parts_.knobs.timeline_mark_cycles);
  thread_ = std::thread([this] { run(); });
}

Engine::~Engine() {
  if (thread_.joinable()) thread_.join();
  running_.clear();
  idle_runs_.clear();
  next_run_.reset();
  sets_.clear();
  retired_sets_.clear();
  contexts_.clear();
}

// --- submitting -----------------------------------------------------------------------------------------------------

Operation* Engine::find_operation(std::int32_t set, std::string_view name) {
  const auto it = in_flight_.find(Key{set, name});
  return it == in_flight_.end() ? nullptr : it->second;
}

Status Engine::submit(HandleState* handle, bool will_wait) {
  {
    const std::scoped_lock lock(mutex_);
    if (!ended_.ok()) return ended_;
    for (Operation& op : handle->operations) {
      op.request.rank = parts_.topology.rank;
      op.submitted = Clock::now();
      if (in_flight_.emplace(Key{op.request.set, op.request.name}, &op).second) continue;
      // All or none: those of this group that were entered before go out again.
      for (Operation& entered : handle->operations) {
        if (&entered == &op) break;
        in_flight_.erase(Key{entered.request.set, entered.request.name});
      }
      return Status::invalid(
          "Requested to allreduce, allgather, or broadcast a tensor with the same name as another tensor that is "
          "currently being processed: '" +
          op.request.name + "'. Wait for the first one, or give the tensors different names.");
    }
    for (Operation& op : handle->operations) queue_.push_back(&op);
    has_submissions_.store(true, std::memory_order_seq_cst);
  }
  if (will_wait) {
    wake_holder();
  } else {
    poke();
  }
  return {};
}

// After something was queued. A holder that is awake looks at the queue before it sleeps or lets go.
void Engine::wake_holder() {
  if (asleep_.load(std::memory_order_seq_cst)) ring(holder_wake_);
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
  const bool work = moves_data() || holds_ready() || parts_.control->pending() || parts_.control->holds_record() ||
                    shutting_down_ || stopped_.load(std::memory_order_acquire);
  let_go(work);
}

// Whoever drops the baton sees to it that somebody does what is left.
void Engine::let_go(bool work) {
  baton_.drop();
  // The engine's thread may have been woken meanwhile, found the baton taken and gone back to sleep: it left a mark.
  if (work || has_submissions_.load(std::memory_order_seq_cst) || look_closely_.load(std::memory_order_seq_cst)) {
    ring(engine_wake_);
  }
}

void Engine::ring(const UniqueFd& eventfd) {
  const std::uint64_t one = 1;
  [[maybe_unused]] const ssize_t n = write(eventfd.get(), &one, sizeof one);
}

// --- waiting --------------------------------------------------------------------------------------------------------

// Takes the baton, or waits for news. True when it was taken.
template <typename Done>
bool Engine::take_or_wait(Done done) {
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
    if (!taken && !done()) baton_.wait_pulse(seen);
  }
  baton_.unwant();
  if (!taken) ring(engine_wake_);  // it may have let go for this thread's sake
  return taken;
}

template <typename Done>
void Engine::drive_until(Done done) {
  while (!done()) {
    if (!take_or_wait(done)) continue;
    disarm();
    for (std::uint32_t idle = first_turn(); !done();) {
      if (drive()) {
        idle = first_turn();
      } else if (wait_policy_.worth_spinning(idle)) {
        idle_turn(idle);
        idle += turn();
      } else {
        sleep();
        idle = first_turn();
      }
    }
    leave();
  }
}

Status Engine::wait(HandleState* handle) {
  drive_until([handle] { return handle->done(); });
  return handle->first_error;
}

// What is left to do goes to the engine's own thread; with nothing to do it goes on sleeping. News that only needs to
// be noted is noted here: waking a thread for it would cost more, and take a core from a rank that needs it.
void Engine::leave() {
  bool work = true;
  for (int turn = 0; turn < 8 && !busy() && !holds_ready() && !parts_.control->holds_record() &&
                     !stopped_.load(std::memory_order_acquire);
       ++turn) {
    // What has ended and not yet left mostly does so at once; arming for it would cost more than these turns.
    work = moves_data() || !arm() || has_submissions_.load(std::memory_order_seq_cst);
    if (!work) break;
    drive();
  }
  let_go(work);
}

// --- process sets, shutdown -----------------------------------------------------------------------------------------

Status Engine::add_set(std::vector<std::int32_t> ranks, std::int32_t* id) {
  SetChange change{std::move(ranks)};
  {
    const std::scoped_lock lock(mutex_);
    if (!ended_.ok()) return ended_;
    sets_to_add_.push_back(change.ranks);
    adding_.push_back(&change);
    has_submissions_.store(true, std::memory_order_seq_cst);
  }
  RODA_RETURN_IF_ERROR(await(&change, &adding_));
  *id = change.id;
  return {};
}

Status Engine::remove_set(std::int32_t id) {
  SetChange change{{}, id};
  {
    const std::scoped_lock lock(mutex_);
    if (!ended_.ok()) return ended_;
    sets_to_remove_.push_back(id);
    removing_.push_back(&change);
    has_submissions_.store(true, std::memory_order_seq_cst);
  }
  return await(&change, &removing_);
}

Status Engine::await(const SetChange* change, std::vector<SetChange*>* changes) {
  wake_holder();
  drive_until([&] {
    const std::scoped_lock lock(mutex_);
    return change->is_done || !ended_.ok();
  });
  const std::scoped_lock lock(mutex_);
  std::erase(*changes, change);
  return change->is_done ? Status() : ended_;
}

bool Engine::has_set(const std::vector<std::int32_t>& ranks) {
  bool found = false;
  drive_until([&] {
    const std::scoped_lock lock(mutex_);
    const auto set =
        std::find_if(known_sets_.begin(), known_sets_.end(), [&](const auto& s) { return s.second == ranks; });
    found = set != known_sets_.end();
    return !found || !ended_.ok() || std::none_of(removing_.begin(), removing_.end(), [&](const SetChange* change) {
      return change->id == set->first && !change->is_done;
    });
  });
  return found;
}

std::vector<std::int32_t> Engine::set_ranks(std::int32_t id) const {
  const std::scoped_lock lock(mutex_);
  const auto it = known_sets_.find(id);
  return it == known_sets_.end() ? std::vector<std::int32_t>() : it->second;
}

std::vector<std::int32_t> Engine::set_ids() const {
  const std::scoped_lock lock(mutex_);
  std::vector<std::int32_t> ids;
  for (const auto& [id, ranks] : known_sets_) ids.push_back(id);
  return ids;
}

bool Engine::find_member(std::int32_t id, std::int32_t rank, int* size, int* position) const {
  const std::scoped_lock lock(mutex_);
  const auto it = known_sets_.find(id);
  if (it == known_sets_.end()) return false;
  const auto& ranks = it->second;
  const auto at = std::lower_bound(ranks.begin(), ranks.end(), rank);
  *size = static_cast<int>(ranks.size());
  *position = at != ranks.end() && *at == rank ? static_cast<int>(at - ranks.begin()) : -1;
  return true;
}

int Engine::start_timeline(const std::string& path, bool mark_cycles) {
  if (parts_.knobs.timeline.empty()) return -2;
  if (parts_.topology.rank != 0) return 1;
  // The job does not depend on its trace: it goes on without.
  if (const Status s = timeline_.open(path, mark_cycles); !s.ok()) RODA_LOG(error, "{}", s.message());
  return 1;
}

int Engine::stop_timeline() {
  if (parts_.knobs.timeline.empty()) return -2;
  timeline_.close();
  return 1;
}

void Engine::shutdown() {
  {
    const std::scoped_lock lock(mutex_);
    shutdown_asked_ = true;
    has_submissions_.store(true, std::memory_order_seq_cst);
  }
  wake_holder();
  drive_until([this] { return stopped_.load(std::memory_order_acquire); });
  ring(engine_wake_);
  if (thread_.joinable()) thread_.join();
}

// --- completing -----------------------------------------------------------------------------------------------------

// Under mutex_.
void Engine::complete(Operation* op, const Status& status) {
  in_flight_.erase(Key{op->request.set, op->request.name});
  HandleState* handle = op->handle;
  if (!status.ok() && handle->first_error.ok()) handle->first_error = status;
  handle->remaining.fetch_sub(1, std::memory_order_acq_rel);
  // From here on the handle may be released and reused by its owner.
}

void Engine::end_operations(const std::vector<Operation*>& operations, const Status& status) {
  {
    const std::scoped_lock lock(mutex_);
    for (Operation* op : operations) {
      if (op != nullptr) complete(op, status);
    }
  }
  baton_.pulse();
}

void Engine::complete_all(const Status& status) {
  {
    const std::scoped_lock lock(mutex_);
    std::vector<Operation*> all;
    for (const auto& [key, op] : in_flight_) all.push_back(op);
    for (Operation* op : all) complete(op, status);
    queue_.clear();
  }
  baton_.pulse();
}

}  // namespace roda::engine

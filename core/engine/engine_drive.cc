// The loop of the baton's holder: announce, apply the log, run launches, sleep.
#include <sys/epoll.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "core/engine/engine.h"
#include "plugins/base/log.h"

namespace roda::engine {
namespace {

// Deadlines of running operations are looked at this often.
constexpr int kBusyTimeoutMs = 500;
// So are tensors that wait for other ranks.
constexpr int kStallLookMs = 1000;

}  // namespace

// --- the engine's own thread ----------------------------------------------------------------------------------------

void Engine::run() {
  while (!stopped_.load(std::memory_order_acquire)) {
    int timeout = -1;
    // Somebody else drives: whoever lets go of the baton arms the bells and rings this thread if there is work.
    if (!baton_.wanted() && baton_.try_take()) {
      disarm();
      std::uint32_t idle = first_turn();
      bool armed = false;
      while (!armed && !baton_.wanted() && !stopped_.load(std::memory_order_acquire)) {
        if (drive()) {
          idle = first_turn();
        } else if (moves_data() && wait_policy_.worth_spinning(idle)) {
          // Nobody waits for what this thread does, but somebody may be about to submit more on this very core.
          WaitPolicy::yield();
          idle += turn();
        } else {
          armed = arm() && !has_submissions_.load(std::memory_order_seq_cst);
          if (!armed) disarm();
        }
      }
      timeout = timeout_ms();
      baton_.drop();
      // A submission whose thread found the baton taken relies on this look.
      if (has_submissions_.load(std::memory_order_seq_cst) && !baton_.wanted()) continue;
    }
    if (stopped_.load(std::memory_order_acquire)) break;
    wait_for_events(engine_poll_.get(), engine_wake_.get(), timeout);
    look_closely_.store(true, std::memory_order_seq_cst);
  }
}

// --- sleeping -------------------------------------------------------------------------------------------------------

bool Engine::arm() {
  parts_.control->arm();
  if (parts_.control->pending()) return false;
  if (!moves_data()) return true;
  for (const auto& context : contexts_.all()) {
    if (!context->arm()) return false;
  }
  // What came between the last look and the arming would ring no bell.
  if (busy()) return !run_launches();
  // Settled just now: a look at what waited for that comes first.
  return !settle() && !contexts_.are_settled();
}

void Engine::disarm() {
  parts_.control->disarm();
  for (const auto& context : contexts_.all()) context->disarm();
}

int Engine::timeout_ms() const {
  // At the end every rank waits for every other one: that has a look at the clock, too.
  int timeout = moves_data() || shutting_down_ ? kBusyTimeoutMs : -1;
  for (const auto& context : contexts_.all()) {
    if (moves_data() && context->progress_mode() == RODA_PROGRESS_POLL) timeout = 1;
  }
  if (std::any_of(running_.begin(), running_.end(), [](const auto& run) { return run->is_on_device(); })) timeout = 1;
  if (parts_.control->holds_record()) timeout = 1;  // nothing rings when the log has room again
  if (next_run_ != nullptr) timeout = 1;            // nor when the members of a group that forms say where they are
  const auto now = Clock::now();
  const bool may_stall = !parts_.knobs.stall_check_disable && negotiator_.is_waiting();
  if (may_stall && timeout < 0) timeout = kStallLookMs;
  for (const auto& [set, until] : hold_until_) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(until - now).count();
    const int ms = static_cast<int>(std::max<std::int64_t>(left, 0));
    timeout = timeout < 0 ? ms : std::min(timeout, ms);
  }
  return timeout;
}

void Engine::sleep() {
  asleep_.store(true, std::memory_order_seq_cst);
  if (arm() && !has_submissions_.load(std::memory_order_seq_cst)) {
    // A bell that is rung late, for news that were seen before, must not go on ringing.
    if (wait_for_events(holder_poll_.get(), holder_wake_.get(), timeout_ms())) parts_.control->note_bell();
    look_closely_.store(true, std::memory_order_relaxed);
  }
  asleep_.store(false, std::memory_order_seq_cst);
  disarm();
}

bool Engine::wait_for_events(int poll, int wake, int timeout) {
  epoll_event events[8];
  const int n = epoll_wait(poll, events, 8, timeout);
  for (int i = 0; i < n; ++i) {
    if (events[i].data.fd != wake) continue;
    std::uint64_t count = 0;
    [[maybe_unused]] const ssize_t got = read(wake, &count, sizeof count);
  }
  return n > 0;
}

Status Engine::watch(int fd) {
  if (fd < 0) return {};
  epoll_event event{};
  event.data.fd = fd;
  event.events = EPOLLIN;
  bool watched = epoll_ctl(holder_poll_.get(), EPOLL_CTL_ADD, fd, &event) == 0;
  event.events = static_cast<std::uint32_t>(EPOLLIN) | static_cast<std::uint32_t>(EPOLLET);
  watched = watched && epoll_ctl(engine_poll_.get(), EPOLL_CTL_ADD, fd, &event) == 0;
  return watched ? Status() : Status::system(std::string("epoll_ctl failed: ") + std::strerror(errno));
}

Status Engine::watch_new_contexts() {
  for (; watched_contexts_ < contexts_.all().size(); ++watched_contexts_) {
    RODA_RETURN_IF_ERROR(watch(contexts_.all()[watched_contexts_]->event_fd()));
  }
  return {};
}

// --- one turn -------------------------------------------------------------------------------------------------------

bool Engine::drive() {
  if (!failed_.ok()) return false;
  bool moved = false;
  if (has_submissions_.load(std::memory_order_acquire)) moved = announce() || moved;
  moved = apply_log() || moved;
  moved = run_launches() || moved;
  if (!busy()) moved = settle() || moved;
  hold_ready_tensors();
  say_finished(true);
  put_in_log();
  if (shutting_down_ && !drained_said_ && !moves_data()) {
    drained_said_ = true;
    announcer_.plain(wire::Item::kDrained, 0);
    put_in_log();
    moved = true;
  }
  const Status service = parts_.control->service(look_closely_.exchange(false, std::memory_order_relaxed));
  if (!announcer_.empty()) put_in_log();  // what the log had no room for may have left just now
  if (parts_.control->is_aborted()) {
    fail(parts_.control->abort_cause());
  } else if (!service.ok()) {
    fail(service);
  } else {
    watch_deadlines();
    if (!moved) watch_stalls();
  }
  return moved;
}

bool Engine::announce() {
  {
    const std::scoped_lock lock(mutex_);
    has_submissions_.store(false, std::memory_order_relaxed);
    draining_.swap(queue_);
    for (const auto& ranks : sets_to_add_) announcer_.add_set(ranks);
    for (const std::int32_t id : sets_to_remove_) announcer_.plain(wire::Item::kRemoveSet, id);
    sets_to_add_.clear();
    sets_to_remove_.clear();
    if (shutdown_asked_ && !shutting_down_) announcer_.plain(wire::Item::kShutdown, 0);
    shutdown_asked_ = false;
  }
  for (Operation* op : draining_) {
    announcer_.announce(op);
    if (announcer_.bytes() > wire::kMostRecordBytes) put_in_log();
  }
  draining_.clear();
  put_in_log();
  return true;
}

void Engine::say_finished(bool only_where_wanted) {
  for (auto& [id, set] : sets_) {
    if (!set->is_member() || set->completed() == set->reported) continue;
    if (only_where_wanted && !negotiator_.wants_finished(id)) continue;
    announcer_.finished(id, set->completed());
    set->reported = set->completed();
  }
}

void Engine::put_in_log() {
  // While the log has no room, what is said meanwhile becomes one record.
  if (announcer_.empty() || (parts_.control->holds_record() && announcer_.bytes() <= wire::kMostRecordBytes)) return;
  say_finished(false);
  if (Status s = parts_.control->append(announcer_.take()); !s.ok()) parts_.control->abort(s);
}

bool Engine::apply_log() {
  bool moved = false;
  while (parts_.control->read(&record_)) {
    moved = true;
    news_for_others_ = false;
    if (Status s = negotiator_.apply(record_, this); !s.ok()) {
      parts_.control->abort(s);
      return true;
    }
    // Whoever spoke the decisive word wakes those who sleep: the others may be asleep themselves.
    std::int32_t speaker = -1;
    std::memcpy(&speaker, record_.data() + offsetof(wire::RecordHeader, rank), sizeof speaker);
    if (news_for_others_ && speaker == parts_.topology.rank) parts_.control->wake_all();
  }
  if (!announcer_.empty()) put_in_log();
  return moved;
}

bool Engine::holds_ready() const {
  const auto& cycle = parts_.knobs.cycle_time_ms;
  if (!cycle.has_value() || *cycle <= 0) return false;
  return std::any_of(sets_.begin(), sets_.end(), [&](const auto& s) { return negotiator_.has_ready(s.first); });
}

// With HOROVOD_CYCLE_TIME ready tensors wait for others to join them, at most that long. The first rank whose clock
// says so ends the wait for all, through the log.
void Engine::hold_ready_tensors() {
  const auto& cycle = parts_.knobs.cycle_time_ms;
  if (!cycle.has_value() || *cycle <= 0) return;
  const auto now = Clock::now();
  for (const auto& [id, set] : sets_) {
    if (!negotiator_.has_ready(id)) {
      hold_until_.erase(id);
      continue;
    }
    const auto window = std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double, std::milli>(*cycle));
    const auto [it, fresh] = hold_until_.emplace(id, now + window);
    if (fresh || now < it->second) continue;
    announcer_.flush(id, negotiator_.ready_count(id));
    hold_until_.erase(it);
  }
}

// --- launches -------------------------------------------------------------------------------------------------------

bool Engine::slot_is_free(const negotiate::Launch& launch) const {
  return std::none_of(running_.begin(), running_.end(), [&](const auto& run) {
    const negotiate::Launch& other = run->launch();
    if (launch.tensors.front()->on_device() && run->needs_whole_device()) return true;
    return other.set == launch.set &&
           (run->needs_whole_group() || other.sequence % kLaunchesInFlight == launch.sequence % kLaunchesInFlight);
  });
}

// Where this rank's tensors of the launch lie, or its zeros, if it has joined. -1: in host memory.
std::int32_t Engine::device_of(const Waiting& waiting) {
  const auto& devices = waiting.launch.tensors.front()->devices;
  if (devices.empty()) return -1;
  const std::int32_t agreed = devices[static_cast<std::size_t>(waiting.set->options().rank)];
  if (agreed >= 0) return last_device_ = agreed;
  const std::scoped_lock lock(mutex_);
  const Operation* join = find_operation(waiting.launch.set, kJoinName);
  return join != nullptr && join->request.device >= 0 ? join->request.device : last_device_;
}

Status Engine::begin_next() {
  Waiting& front = waiting_.front();
  if (idle_runs_.empty()) idle_runs_.push_back(std::make_unique<LaunchRun>());
  next_run_ = std::move(idle_runs_.back());
  idle_runs_.pop_back();
  execute::DeviceQueue queue;
  const std::int32_t device = device_of(front);
  const Status status = device < 0 ? Status() : streams_.next(device, &queue);
  const auto slot = static_cast<std::uint32_t>(front.launch.sequence % kLaunchesInFlight);
  next_run_->begin(std::move(front.launch), std::move(front.operations), front.set, slot, queue);
  waiting_.pop_front();
  return status;
}

// Starts launches in their order; one whose group is still forming holds up those behind it.
bool Engine::start_launches() {
  bool moved = false;
  while (next_run_ != nullptr || !waiting_.empty()) {
    Status status;
    if (next_run_ == nullptr) {
      if (!slot_is_free(waiting_.front().launch)) break;
      status = begin_next();
    }
    bool started = false;
    if (status.ok()) status = next_run_->start(parts_.planner.get(), &contexts_, &started);
    if (status.ok()) status = watch_new_contexts();
    if (status.ok() && !started) break;
    moved = true;
    if (timeline_.active()) {
      for (const auto& tensor : next_run_->launch().tensors) timeline_.started(tensor->name, next_run_->activity());
    }
    if (status.ok()) {
      running_.push_back(std::move(next_run_));
    } else {
      end_run(std::move(next_run_), status);
    }
  }
  return moved;
}

bool Engine::run_launches() {
  bool moved = start_launches();
  if (running_.empty() && next_run_ == nullptr) return moved;
  for (const auto& context : contexts_.all()) moved = context->progress() > 0 || moved;
  for (std::size_t i = 0; i < running_.size();) {
    LaunchRun& run = *running_[i];
    if (run.broken) break;
    bool done = false;
    const Status status = run.advance(&done);
    if (run.moves() != run.seen_moves) {
      run.seen_moves = run.moves();
      run.moved_at = {};  // renewed at the next look at the clock
      moved = true;
    }
    if (!done && status.ok()) {
      if (parts_.knobs.enable_async_completion && run.lies_on_stream()) {
        end_operations(run.operations(), status);
        run.forget_operations();
      }
      ++i;
      continue;
    }
    auto ended = std::move(running_[i]);
    running_.erase(running_.begin() + static_cast<std::ptrdiff_t>(i));
    end_run(std::move(ended), status);
    moved = true;
  }
  return moved;
}

// With nothing running: what has ended may still need this process to leave it.
bool Engine::settle() {
  bool moved = false;
  for (const auto& context : contexts_.all()) moved = context->settle() > 0 || moved;
  return moved;
}

// Whether the other ranks can't know of the error by themselves: all but those that follow from what all ranks agreed.
bool Engine::is_fatal(const Status& status) { return status.code() != RODA_ERR_UNSUPPORTED; }

// A transport may notice a broken connection a moment before the kernel says that its process ended. That it ended is
// the better cause, and on a busy machine the moment is not short.
void Engine::look_for_the_dead() {
  const auto deadline = Clock::now() + std::chrono::milliseconds(500);
  while (!parts_.control->is_aborted() && Clock::now() < deadline) {
    if (!parts_.control->service(true).ok()) return;
    std::this_thread::yield();
  }
}

void Engine::end_run(std::unique_ptr<LaunchRun> run, const Status& status) {
  SetRuntime* set = run->set();
  if (!status.ok() && is_fatal(status)) {
    if (status.code() == RODA_ERR_PEER) look_for_the_dead();
    const Status cause(status.code(),
                       "Rank " + std::to_string(parts_.topology.rank) + ": " + run->describe() +
                           " failed: " + status.message() + " The contents of outputs are undefined.",
                       status.rank() >= 0 ? status.rank() : parts_.topology.rank);
    parts_.control->abort(cause);
    run->broken = true;
    running_.push_back(std::move(run));  // fail() ends it with the rest, under the first cause
    return;
  }
  if (timeline_.active()) {
    for (const auto& tensor : run->launch().tensors) timeline_.ended(tensor->name, tensor->dtype, tensor->shape);
  }
  end_operations(run->operations(), status);
  set->complete(run->launch().sequence);
  run->finish();
  idle_runs_.push_back(std::move(run));
  end_removed_sets();
}

void Engine::watch_deadlines() {
  if (running_.empty()) return;
  const auto now = Clock::now();
  if (now < next_deadline_look_) return;
  next_deadline_look_ = now + std::chrono::milliseconds(kBusyTimeoutMs);
  const auto limit = std::chrono::seconds(parts_.knobs.gloo_timeout_seconds);
  for (const auto& run : running_) {
    if (run->moved_at == Clock::time_point{}) run->moved_at = now;
    if (now - run->moved_at < limit) continue;
    parts_.control->abort(
        Status(RODA_ERR_TIMEOUT,
               "Rank " + std::to_string(parts_.topology.rank) + ": " + run->describe() + " made no progress for " +
                   std::to_string(limit.count()) +
                   " s. A peer may be stopped or unreachable; raise HOROVOD_GLOO_TIMEOUT_SECONDS if it is only slow.",
               parts_.topology.rank));
    return;
  }
}

// The first of the ranks that have submitted a tensor reports it: one report a tensor, from a rank that is awake.
void Engine::watch_stalls() {
  if (parts_.knobs.stall_check_disable) return;
  const auto now = Clock::now();
  if (now < next_stall_look_) return;
  next_stall_look_ = now + std::chrono::milliseconds(kStallLookMs);
  std::vector<observe::StallWatch::Waiting> mine;
  for (auto& w : negotiator_.waiting()) {
    const auto& members = negotiator_.members(w.set);
    const auto first = std::find_if(members.begin(), members.end(), [&](std::int32_t r) {
      return !std::binary_search(w.missing.begin(), w.missing.end(), r);
    });
    if (first != members.end() && *first == parts_.topology.rank) mine.push_back({w.set, w.name, std::move(w.missing)});
  }
  const auto report = stall_watch_.look(mine, now);
  if (!report.has_value()) return;
  if (report->shut_down) {
    parts_.control->abort(Status(RODA_ERR_TIMEOUT, report->text, mine.front().missing.front()));
  } else {
    RODA_LOG(warning, "{}", report->text);
  }
}

// --- the end --------------------------------------------------------------------------------------------------------

// Every operation ends with the first cause. Stages are ended first: what they touch belongs to the callers again then.
void Engine::fail(const Status& cause) {
  if (!failed_.ok()) return;
  failed_ = Status(cause.code(), "Horovod has been shut down. The cause: " + cause.message(), cause.rank());
  RODA_LOG(error, "{}", failed_.message());
  {
    const std::scoped_lock lock(mutex_);
    if (ended_.ok()) ended_ = failed_;
  }
  // Before anybody learns of the error, and may leave the process with it.
  const bool tells = parts_.bootstrap != nullptr && parts_.bootstrap->peer_lost != nullptr;
  if (tells && cause.code() == RODA_ERR_PEER) parts_.bootstrap->peer_lost(parts_.host, cause.rank());
  settle_aborted_runs(cause);
  waiting_.clear();
  next_run_.reset();
  complete_all(failed_);
  stopped_.store(true, std::memory_order_release);
  parts_.control->depart();
  baton_.pulse();
}

void Engine::settle_aborted_runs(const Status& cause) {
  for (auto& [id, set] : sets_) set->abort(cause);
  const auto patience = std::chrono::duration<double>(parts_.knobs.abort_timeout_seconds);
  const auto deadline = Clock::now() + std::chrono::duration_cast<Clock::duration>(patience);
  for (const auto& run : running_) run->abort(cause);
  while (!running_.empty() && Clock::now() < deadline) {
    for (const auto& context : contexts_.all()) context->progress();
    std::erase_if(running_, [&](auto& run) {
      bool done = run->broken || !run->started();
      if (!done) static_cast<void>(run->advance(&done));
      if (!done || !run->quiesced()) return false;
      run->finish();
      idle_runs_.push_back(std::move(run));
      return true;
    });
    wait_policy_.relax(0);
  }
  if (running_.empty()) return;
  RODA_LOG(error, "{} could not be ended in HOROVOD_ABORT_TIMEOUT_SECONDS; its buffers may still be written to",
           running_.front()->describe());
}

}  // namespace roda::engine

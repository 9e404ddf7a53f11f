// The loop of the baton's holder: announce, apply the log, run launches, sleep.
#include <algorithm>
#include <cstring>
#include <stdexcept>

#include "core/engine/affinity.h"
#include "core/engine/engine.h"
#include "plugins/base/format.h"
#include "plugins/base/helper_thread.h"
#include "plugins/base/log.h"

namespace roda::engine {
namespace {

// How often deadlines of running operations are looked at.
constexpr int kBusyTimeoutMs = 500;
// How often a caller that waits or polls in vain looks for stalls.
constexpr int kIdleTimeoutMs = static_cast<int>(observe::StallWatch::kLook.count());

constexpr auto kNever = CoarseClock::time_point::max();

}  // namespace

// --- the engine's own thread ----------------------------------------------------------------------------------------

// Starts the engine's thread; where that fails, the other ranks are told why.
void Engine::start() {
  try {
    thread_ = start_thread("roda-engine", [this] { run(); });
  } catch (const std::runtime_error& error) {
    parts_.control->abort(Status(RODA_ERR_SYSTEM, roda::format("Rank {}: {}", parts_.rank, error.what()), parts_.rank));
    static_cast<void>(parts_.control->service(true));
    throw;
  }
  pin();
}

void Engine::pin() {
  const std::string& list = parts_.knobs.thread_affinity;
  if (list.empty()) return;
  const int local_rank = parts_.topology.rank(parts_.rank).local_rank;
  const int local_size = static_cast<int>(parts_.topology.host_of(parts_.rank).ranks.size());
  int core = -1;
  Status status = core_of(list, local_rank, local_size, &core);
  const bool is_told_by_another = !status.ok() && local_rank != 0;  // which has the same list
  if (status.ok()) status = pin_to_core(thread_.native_handle(), core);
  if (status.ok() || is_told_by_another) return;
  RODA_LOG(warning, "HOROVOD_THREAD_AFFINITY={}: {}; the engine's thread is not pinned", list, status.message());
}

void Engine::run() {
  bool rang = true;
  while (!stopped_.load(std::memory_order_acquire)) {
    int timeout = kIdleTimeoutMs;
    // Somebody else drives: whoever lets go of the baton arms the bells and rings this thread if there is work.
    if (!baton_.wanted() && baton_.try_take()) {
      disarm();
      std::uint32_t idle = turn_after_sleep(rang);
      bool armed = false;
      while (!armed && !baton_.wanted() && !stopped_.load(std::memory_order_acquire)) {
        if (drive()) {
          idle = first_turn();
        } else if (launcher_.moves_data() && wait_policy_.worth_spinning(idle)) {
          // Nobody waits for what this thread does, but somebody may be about to submit more on this very core.
          WaitPolicy::yield();
          idle += turn();
        } else {
          armed = arm() && !submissions_.has_news();
          if (armed) continue;
          disarm();
          WaitPolicy::yield();  // to another rank, perhaps, that is about to finish what is only half there
        }
      }
      if (armed && launcher_.moves_data()) bells_.listen();
      timeout = timeout_ms();
      baton_.drop();
      // A submission whose thread found the baton taken relies on this look.
      if (submissions_.has_news() && !baton_.wanted()) continue;
    }
    if (stopped_.load(std::memory_order_acquire)) break;
    rang = bells_.sleep_as_engine(timeout);
    look_closely_.store(true, std::memory_order_seq_cst);
  }
}

// --- sleeping -------------------------------------------------------------------------------------------------------

bool Engine::arm() {
  if (stopped_.load(std::memory_order_acquire)) return false;  // operations that have not ended have nobody who waits
  parts_.control->arm();
  if (parts_.control->pending()) return false;
  if (!launcher_.moves_data()) return true;
  for (const auto& context : launcher_.contexts().all()) {
    if (!launcher_.busy() && context->is_settled()) continue;  // no message is under way there
    if (!context->arm()) return false;
  }
  // A message that came between the last look and the arming would ring no bell.
  if (launcher_.busy()) return !launcher_.advance();
  // All that was sent may have settled just now: the launches that waited for that come first.
  return !launcher_.settle() && launcher_.moves_data();
}

void Engine::disarm() {
  parts_.control->disarm();
  for (const auto& context : launcher_.contexts().all()) context->disarm();
}

int Engine::timeout_ms() const {
  // At the end every rank waits for every other one: that wait, too, is looked at by the clock.
  int timeout = launcher_.moves_data() || ending_.is_asked ? kBusyTimeoutMs : kIdleTimeoutMs;
  for (const auto& context : launcher_.contexts().all()) {
    if (launcher_.moves_data() && context->progress_mode() == RODA_PROGRESS_POLL) timeout = 1;
  }
  if (launcher_.is_on_device()) timeout = 1;
  if (parts_.control->holds_record()) timeout = 1;  // nothing rings when the log has room again
  if (roll_call_.is_under_way()) timeout = 1;       // nothing rings at its end either
  if (const LaunchRun* run = launcher_.connecting()) timeout = std::min(timeout, WaitPolicy::look_ms(run->looks));
  for (const Hold* hold : {&hold_, &demand_.quiet()}) {
    const auto end = hold->first_end();
    if (!end) continue;
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(*end - Clock::now()).count();
    timeout = std::min(timeout, static_cast<int>(std::max<std::int64_t>(left, 0)));
  }
  return timeout;
}

// When the members of a group that forms say where they are, nothing rings. Ranks that looked for it each millisecond,
// and spun each time, would keep the cores from the one that they wait for.
std::uint32_t Engine::turn_after_sleep(bool rang) {
  LaunchRun* const run = launcher_.connecting();
  if (run == nullptr) return first_turn();
  if (!rang) ++run->looks;
  return kSpunEnough;
}

std::uint32_t Engine::sleep(int limit_ms) {
  std::uint32_t idle = first_turn();
  baton_.sleeps(true);
  if (arm() && !submissions_.has_news()) {
    const int timeout = timeout_ms();
    const bool is_limited = limit_ms >= 0 && limit_ms < timeout;
    // Notes the bell: one that rang late, for news that were seen before, would ring at each look until it is read.
    const bool rang = bells_.sleep_as_holder(is_limited ? limit_ms : timeout);
    if (rang) parts_.control->note_bell();
    idle = turn_after_sleep(rang);
    look_closely_.store(true, std::memory_order_relaxed);
  }
  baton_.sleeps(false);
  disarm();
  return idle;
}

// --- one turn -------------------------------------------------------------------------------------------------------

bool Engine::drive() {
  if (!ending_.cause.ok()) return false;
  baton_.begin_turn();
  turn_time_ = {};
  bool moved = false;
  if (submissions_.has_news(std::memory_order_acquire)) moved = announce() || moved;
  moved = apply_log() || moved;
  moved = launcher_.advance() || moved;
  if (!launcher_.busy()) moved = launcher_.settle() || moved;
  hold_ready_tensors();
  close_buckets();
  say_finished(true);
  put_in_log();
  if (ending_.is_asked && !ending_.is_drained && !launcher_.moves_data()) {
    ending_.is_drained = true;
    announcer_.record().plain(wire::Item::kDrained, 0);
    put_in_log();
    moved = true;
  }
  const bool looks_closely =
      look_closely_.load(std::memory_order_relaxed) && look_closely_.exchange(false, std::memory_order_relaxed);
  const Status service = parts_.control->service(looks_closely, turn_time());
  roll_call_.runs_at(turn_time());
  if (parts_.control->heard_roll_call()) roll_call_.pass_on(CoarseClock::now());
  if (!announcer_.empty()) put_in_log();  // the record that the log had no room for may have left just now
  if (parts_.control->is_aborted()) {
    fail(parts_.control->abort_cause());
  } else if (!service.ok()) {
    fail(service);
  } else {
    watch_deadlines();
    if (!moved) watch_stalls();
    if (roll_call_.is_under_way()) {
      if (const auto verdict = roll_call_.verdict(CoarseClock::now())) parts_.control->abort(*verdict);
    }
  }
  return moved;
}

bool Engine::announce() {
  submissions_.take(&news_);
  for (const auto& ranks : news_.sets_to_add) announcer_.record().add_set(ranks);
  for (const std::int32_t id : news_.sets_to_remove) announcer_.record().plain(wire::Item::kRemoveSet, id);
  for (Loan* loan : news_.loans) loan->end(launcher_.lend(loan->set, loan->bytes, &loan->memory));
  if (!news_.loans.empty()) baton_.pulse();
  if (!news_.shutdown.empty() && !ending_.is_asked) announcer_.record().shutdown(news_.shutdown);
  for (Operation* op : news_.operations) {
    const negotiate::Request& r = op->request;
    op->recorded = recorder_.submitted({r.name, r.collective, r.dtype, r.set, op->bytes(), op->submitted});
    last_ranks_.submitted(op->recorded);
    if (r.device >= 0 && r.collective != RODA_JOIN) demand_.submitted(TensorKind::of(r));
    announcer_.announce(op);
    if (announcer_.bytes() > wire::kMostRecordBytes) put_in_log();
  }
  // The kinds that threads wait for come after the operations, among which the awaited ones mostly are.
  for (const TensorKind& kind : news_.awaited) demand_.awaited(kind);
  put_in_log();
  return true;
}

void Engine::say_finished(bool only_where_wanted) {
  wire::Combiner* const combiner = parts_.control->combiner();
  for (const auto& [id, set] : launcher_.sets()) {
    if (combiner != nullptr) combiner->want_finished(id, negotiator_.wants_finished(id));
    if (!set->is_member() || set->completed() == set->reported) continue;
    if (only_where_wanted && !negotiator_.wants_finished(id)) continue;
    announcer_.record().number(wire::Item::kFinished, id, set->completed());
    set->reported = set->completed();
  }
}

void Engine::put_in_log() {
  // While the log has no room, announcements become one record.
  if (announcer_.empty() || (parts_.control->holds_record() && announcer_.bytes() <= wire::kMostRecordBytes)) return;
  say_finished(false);
  if (Status s = parts_.control->append(announcer_.take()); !s.ok()) parts_.control->abort(s);
}

bool Engine::apply_log() {
  RODA_INVARIANT(ending_.cause.ok(), "a rank applies nothing of the log after its end");
  bool moved = false;
  while (parts_.control->read(&record_)) {
    moved = true;
    news_for_others_ = false;
    if (Status s = negotiator_.apply(record_, this); !s.ok()) {
      parts_.control->abort(s);
      return true;
    }
    // The rank whose record was decisive wakes all that sleep: the other ranks may be asleep themselves.
    std::int32_t speaker = -1;
    std::memcpy(&speaker, record_.data() + offsetof(wire::RecordHeader, rank), sizeof speaker);
    if (news_for_others_ && speaker == parts_.rank) parts_.control->wake_all();
  }
  if (!announcer_.empty()) put_in_log();
  return moved;
}

void Engine::open_set(std::int32_t id, const std::vector<std::int32_t>& ranks) {
  SetRuntime::Options options;
  options.number = negotiator_.number(id);
  options.name = parts_.job_key + "/set" + std::to_string(id) + "." + std::to_string(options.number);
  options.ranks = ranks;
  options.rank = negotiator_.position(id, parts_.rank);
  options.shape = Shape(levels_of(parts_.topology, ranks), options.rank);
  options.generation = parts_.generation;
  options.timeout_ns = static_cast<std::uint64_t>(parts_.knobs.gloo_timeout_seconds) * 1'000'000'000u;
  options.address = parts_.address;
  if (parts_.knobs.wire_residual_bytes > 0) options.residuals = &residuals_;
  launcher_.open_set(id, std::move(options));
  if (auto* combiner = parts_.control->combiner()) combiner->set_added(id, ranks);
  submissions_.set_opened(id, ranks);
}

void Engine::set_added(std::int32_t id, const std::vector<std::int32_t>& ranks) {
  news_for_others_ = true;
  open_set(id, ranks);
  baton_.pulse();
}

void Engine::set_removed(std::int32_t id) {
  news_for_others_ = true;
  const std::vector<Operation*> pending = submissions_.set_closed(id);
  announcer_.forget_set(id);
  demand_.forget_set(id);
  hold_.end(id);
  if (auto* combiner = parts_.control->combiner()) combiner->set_removed(id);
  launcher_.remove_set(id);
  end_operations(pending, Status::aborted("Process set has been removed"));
}

void Engine::set_ended(std::uint64_t number) {
  news_for_others_ = true;
  launcher_.end_set(number);
}

bool Engine::holds_ready() const {
  if (!hold_.is_on() && parts_.device == nullptr) return false;
  return std::ranges::any_of(launcher_.sets(), [&](const auto& s) {
    baton_.assert_held();
    const bool fills = s.second->is_member() && negotiator_.filling(s.first).waiting() != 0;
    return fills || negotiator_.holds_back(s.first);
  });
}

// With HOROVOD_CYCLE_TIME ready tensors wait for others to join them, at most that long. The first rank whose clock
// says so ends the wait for all, through the log.
void Engine::hold_ready_tensors() {
  if (!hold_.is_on()) return;
  const auto now = Clock::now();
  for (const auto& [id, set] : launcher_.sets()) {
    const std::uint64_t ready = negotiator_.ready_count(id);
    if (!negotiator_.holds_back(id) || set->flushed == ready) {  // said, and on its way through the log
      hold_.end(id);
    } else if (hold_.is_over(id, now)) {
      announcer_.record().number(wire::Item::kFlush, id, ready);
      set->flushed = ready;
    }
  }
}

// A bucket on a device that fills waits for no more tensors once a thread of this rank waits for one of its kind, and
// all tensors of the kind that this rank has submitted are agreed on: the set's speaker closes the bucket in the log.
// Any member closes buckets for which no tensor has come for a while.
void Engine::close_buckets() {
  demand_.each_due(negotiator_, [&](const TensorKind& kind) {
    baton_.assert_held();
    if (negotiator_.is_speaker(kind.set)) {
      announcer_.record().number(wire::Item::kClose, kind.set, kind.number);
    } else {
      parts_.control->wake_all();  // the speaker may wait, too, and sleep: no launch came of what was agreed on last
    }
  });
  if (parts_.device == nullptr) return;
  Hold& quiet = demand_.quiet();
  for (const auto& [id, set] : launcher_.sets()) {
    const auto& filling = negotiator_.filling(id);
    if (!set->is_member() || filling.waiting() == 0) {
      quiet.end(id);
    } else if (quiet.is_over(id, Clock::now(), filling.added())) {
      announcer_.record().number(wire::Item::kClose, id, 0);
    }
  }
}

// --- watching --------------------------------------------------------------------------------------------------------

// Ends the job with a transport's or a deadline's error. An error that only says that a peer is not heard may name a
// victim: a roll call finds the rank at fault first. Meanwhile a process that has ended ends the job by itself.
void Engine::end_or_call_roll(const Status& cause) {
  const bool is_hearsay =
      cause.code() == RODA_ERR_TIMEOUT || cause.code() == RODA_ERR_PEER || cause.code() == RODA_ERR_ABORTED;
  if (!is_hearsay) return parts_.control->abort(cause);
  if (!roll_call_.begin(cause, CoarseClock::now())) return;
  announcer_.record().plain(wire::Item::kRollCall, 0);
  put_in_log();
}

void Engine::watch_deadlines() {
  if (!launcher_.busy()) return;
  const auto now = turn_time();
  if (now < next_deadline_look_) return;
  next_deadline_look_ = now + std::chrono::milliseconds(kBusyTimeoutMs);
  const std::chrono::duration<double> on_host(parts_.knobs.gloo_timeout_seconds);
  const std::chrono::duration<double> on_device(parts_.knobs.gpu_timeout_seconds);
  const LaunchRun* run = launcher_.find_overdue(now, std::chrono::duration_cast<CoarseClock::duration>(on_host),
                                                std::chrono::duration_cast<CoarseClock::duration>(on_device));
  if (run == nullptr) return;
  const bool is_gpus = run->is_on_device();
  end_or_call_roll(
      Status(RODA_ERR_TIMEOUT,
             roda::format("Rank {}: {} made no progress for {} s. A peer may be stopped or unreachable; raise {} if "
                          "it is only slow.",
                          parts_.rank, run->describe(), (is_gpus ? on_device : on_host).count(),
                          is_gpus ? "RODA_GPU_TIMEOUT_SECONDS" : "HOROVOD_GLOO_TIMEOUT_SECONDS"),
             parts_.rank));
}

// The longest time that this rank waits for its own operations before it calls the roll: a short one in elastic jobs,
// which can go on without a stopped rank, and at the end, when every rank's engine answers whatever its program does.
std::optional<Engine::WaitLimit> Engine::wait_limit() const {
  const auto& knobs = parts_.knobs;
  const bool ends_stalls = !knobs.stall_check_disable && knobs.stall_shutdown_seconds > 0;
  if ((knobs.elastic || submissions_.is_to_end()) &&
      (!ends_stalls || knobs.gloo_timeout_seconds < knobs.stall_shutdown_seconds)) {
    return WaitLimit{std::chrono::seconds(knobs.gloo_timeout_seconds), "HOROVOD_GLOO_TIMEOUT_SECONDS"};
  }
  if (!ends_stalls) return std::nullopt;
  return WaitLimit{std::chrono::seconds(knobs.stall_shutdown_seconds), "HOROVOD_STALL_SHUTDOWN_TIME_SECONDS"};
}

// The first of the ranks that have submitted a tensor reports it: one report a tensor, from a rank that is awake. Where
// a host's ranks are is known on that host alone: the first that is missing there reports it as well.
void Engine::watch_stalls() {
  const auto now = turn_time();
  if (!stall_watch_.is_due(now)) return;
  if (parts_.knobs.stall_check_disable) return watch_own_waits();
  std::vector<observe::StallWatch::Waiting> mine;
  for (auto& w : negotiator_.waiting()) {
    if (const Operation* op = submissions_.find(w.set, w.name)) recorder_.missing(op->recorded, w.missing);
    const auto& members = negotiator_.members(w.set);
    const auto first =
        std::ranges::find_if(members, [&](std::int32_t r) { return !std::ranges::binary_search(w.missing, r); });
    if (first == members.end()) continue;
    const auto is_here = [&here = parts_.topology.host_of(parts_.rank).ranks](std::int32_t r) {
      return std::ranges::find(here, r) != here.end();
    };
    const auto missing = is_here(*first) ? w.missing.end() : std::ranges::find_if(w.missing, is_here);
    if ((missing == w.missing.end() ? *first : *missing) == parts_.rank) {
      mine.push_back({w.set, w.name, std::move(w.missing)});
    }
  }
  auto report = stall_watch_.look(mine, now);
  if (!report.has_value()) return watch_own_waits();
  report->text += "\n" + observe::latest_operations(parts_.control->rooms());
  if (report->shut_down) {
    // A rank that is stopped may have left a tensor behind, which others miss who wait for it.
    end_or_call_roll(Status(RODA_ERR_TIMEOUT, report->text, report->culprit));
  } else {
    RODA_LOG(warning, "{}", report->text);
  }
}

// A rank's records may reach the log through other ranks: while one of those is stopped, no rank knows that this one
// has submitted anything, and none reports it. Nor does any rank report one that only ranks wait for which have joined.
// So this rank calls the roll when its own wait has lasted too long.
void Engine::watch_own_waits() {
  const auto limit = wait_limit();
  const auto waits_since = submissions_.waits_since();
  if (!limit.has_value() || waits_since == kNever) return;
  const Status cause(RODA_ERR_TIMEOUT,
                     "Rank " + std::to_string(parts_.rank) + " waits for more than " +
                         std::to_string(limit->time.count()) + " s (" + limit->setting + ") for " +
                         (submissions_.is_to_end() ? "the end of all ranks." : "what it has submitted."));
  if (!roll_call_.begin_as_precaution(cause, waits_since, limit->time, CoarseClock::now())) return;
  announcer_.record().plain(wire::Item::kRollCall, 0);
  put_in_log();
}

}  // namespace roda::engine

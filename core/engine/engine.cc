#include "core/engine/engine.h"

#include <algorithm>
#include <cstring>

#include "plugins/base/format.h"
#include "plugins/base/log.h"

namespace roda::engine {
namespace {

// Longer than a turn of whoever holds the baton on another core.
constexpr std::uint32_t kPausesForHolder = 64;

constexpr std::chrono::milliseconds kLookAtHolder{500};

constexpr const char* kRankMark = "{rank}";  // in a timeline's name: every rank writes a file of its own

// A cause has to leave room in an error's text for what stands before and behind it.
std::string cut(const std::string& how) {
  constexpr std::size_t kMost = 700;
  return how.size() <= kMost ? how : how.substr(0, kMost) + "...";
}

negotiate::Settings settings_of(const Parts& parts) {
  return {.size = parts.topology.size(),
          .cache_capacity = parts.knobs.cache_capacity,
          .buckets = bucket_rules(parts, static_cast<std::size_t>(parts.knobs.fusion_threshold)),
          .outstanding = parts.knobs.outstanding_buckets,
          .hold = parts.knobs.cycle_time_ms.value_or(0) > 0};
}

}  // namespace

Engine::Engine(Parts parts)
    : parts_(std::move(parts)),
      wait_policy_(parts_.has_core_each),
      submissions_(settings_of(parts_).buckets),
      bells_(std::move(parts_.bells)),
      negotiator_(settings_of(parts_), parts_.rank),
      announcer_(negotiator_, parts_.rank),
      launcher_(this, parts_.planner.get(), parts_.store.get(),
                {parts_.host, parts_.device, parts_.knobs.num_nccl_streams,
                 parts_.topology.rank(parts_.rank).local_rank, parts_.knobs.async_completion()}),
      roll_call_(parts_.rank, parts_.topology.size(), parts_.control->way_up()),
      recorder_(parts_.control->room(),
                {parts_.rank, parts_.topology.size(), parts_.generation, parts_.topology.host_of(parts_.rank).name}),
      stall_watch_(std::chrono::seconds(parts_.knobs.stall_check_seconds),
                   std::chrono::seconds(parts_.knobs.stall_shutdown_seconds)),
      tuner_(make_tuner(parts_)) {
  hold_.set_window(std::chrono::duration<double, std::milli>(parts_.knobs.cycle_time_ms.value_or(0)));
  demand_.quiet().set_window(std::max<std::chrono::duration<double, std::milli>>(hold_.window(), BucketDemand::kQuiet));
  static_cast<void>(bells_.watch(parts_.control->fd()));
  residuals_.left = static_cast<std::size_t>(parts_.knobs.wire_residual_bytes);
  open_set(0, negotiator_.members(0));
  for (const auto& ranks : parts_.static_sets) open_set(negotiator_.add_static_set(ranks), ranks);
  const std::string& timeline = parts_.knobs.timeline;
  if (!timeline.empty() && timeline != "DYNAMIC") start_timeline(timeline, parts_.knobs.timeline_mark_cycles);
  start();
  listen_to_invariants(&invariants_);
}

Engine::~Engine() {
  if (thread_.joinable()) thread_.join();
  submissions_.continuations().close();
  launcher_.clear();
  forget_invariants(&invariants_);
}

// --- submitting -----------------------------------------------------------------------------------------------------

// The announcement goes into the log on this very thread where it can: no other thread need wake for a tensor that the
// other ranks don't have yet. But where the engine's thread is on its way it takes all that is there by then at once.
Status Engine::submit(HandleState* handle, bool will_wait) {
  RODA_RETURN_IF_ERROR(submissions_.add(handle, parts_.rank));
  if (will_wait || bells_.is_engine_called() || !baton_.try_take()) {
    wake_holder();
    return {};
  }
  bool work = true;
  if (!stopped_.load(std::memory_order_acquire)) {  // the engine may have ended, and with it what the log speaks of
    baton_.begin_turn();
    turn_time_ = {};
    announce();
    // Between hosts what was said still has to leave. An error is kept by the control plane and met in the next turn.
    static_cast<void>(parts_.control->service(false, turn_time()));
    apply_log();
    // A record that another rank is still writing hides those behind it, this rank's own decisive word perhaps, for
    // which nobody would ring.
    work = launcher_.moves_data() || holds_ready() || parts_.control->pending() || parts_.control->holds_record() ||
           ending_.is_asked || stopped_.load(std::memory_order_acquire);
  }
  let_go(work);
  return {};
}

// A thread that drops the baton makes sure that another one does the remaining work.
void Engine::let_go(bool work) {
  baton_.drop();
  // The engine's thread may have been woken meanwhile, found the baton taken and gone back to sleep: it left a mark.
  if (work || submissions_.has_news() || look_closely_.load(std::memory_order_seq_cst)) bells_.wake_engine();
}

// --- waiting --------------------------------------------------------------------------------------------------------

class Engine::Limit {
 public:
  // `looks`: turns from one look at the clock to the next.
  Limit(std::int64_t microseconds, std::uint32_t looks)
      : is_set_(microseconds >= 0), is_slept_(microseconds >= 1000), looks_(looks) {
    if (is_set_) end_ = Clock::now() + std::chrono::microseconds(microseconds);
  }
  // Once over, always over.
  bool is_over() {
    if (is_set_ && !is_over_ && ++turns_ % looks_ == 0) is_over_ = Clock::now() >= end_;
    return is_over_;
  }
  // -1: no limit. One of less than a millisecond is not slept through.
  int left_ms() const {
    if (!is_set_) return -1;
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(end_ - Clock::now()).count();
    return is_slept_ ? static_cast<int>(std::max<std::int64_t>(left, 0)) : 0;
  }

 private:
  bool is_set_, is_slept_;
  bool is_over_ = false;
  std::uint32_t turns_ = 0;
  std::uint32_t looks_;
  Clock::time_point end_;
};

// Takes the baton, or waits for news. True when it was taken. The analysis does not follow what `taken` knows.
RODA_UNCHECKED bool Engine::take_or_wait(auto done, const Limit& limit) {
  if (baton_.try_take()) return true;
  baton_.want();
  bool taken = false;
  for (std::uint32_t i = 0; !taken && !done() && wait_policy_.worth_spinning(i); ++i) {
    // The holder may need this very core to see that somebody wants it.
    i % kPausesForHolder == kPausesForHolder - 1 ? WaitPolicy::yield() : wait_policy_.relax(i);
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

void Engine::drive_until(auto done, std::int64_t limit_us) {
  // A look at the clock takes longer than a turn that spins, and is nothing beside one that yields.
  Limit limit(limit_us, wait_policy_.spins() ? 16 : 1);
  const auto is_over = [&] { return done() || limit.is_over(); };
  while (!is_over()) {
    if (!take_or_wait(is_over, limit)) continue;
    disarm();
    // Only after a turn: what ends while the bells are armed has things to be said that the others wait for.
    for (std::uint32_t idle = first_turn();;) {
      const bool moved = drive();
      if (is_over()) break;
      if (!moved && wait_policy_.worth_spinning(idle)) {
        if (idle == noticed_turn()) note_idle();
        idle = idle_turn(idle) ? first_turn() : idle + turn();
      } else {
        if (!moved) note_idle();
        idle = moved ? first_turn() : sleep(limit.left_ms());
      }
    }
    leave();
  }
}

bool Engine::wait(HandleState* handle, std::int64_t limit_us) {
  if (handle->done()) return true;
  if (submissions_.await(*handle)) wake_holder();
  drive_until([handle] { return handle->done(); }, limit_us);
  return handle->done();
}

bool Engine::then(HandleState* handle, const Continuation& continuation) {
  if (handle->done()) return false;  // and no thread is woken for it
  submissions_.continuations().expect([this] { call_back(); });
  if (submissions_.then(handle, continuation)) return true;
  submissions_.continuations().forget();
  return false;
}

// The thread of continuations waits for the next handle that ends as other threads wait for theirs, and so mostly
// drives the engine to that end itself. A continuation may take its time, or wait for a handle: the engine's own thread
// drives on meanwhile.
void Engine::call_back() {
  Continuations& continuations = submissions_.continuations();
  while (continuations.await()) {
    drive_until([&] { return continuations.is_due() || stopped_.load(std::memory_order_acquire); });
    for (const Continuation& c : continuations.take()) {
      c.call(c.context, c.handle);
      parts_.handles->release(c.handle);
    }
  }
}

// A waiting thread leaves the remaining work to the engine's own thread, which sleeps on when there is none. News that
// only need to be noted are noted here: waking a thread for them would cost more, and take a core from another rank.
void Engine::leave() {
  last_ranks_.wait_is_over();
  bool work = true;
  for (int turn = 0; turn < 8 && !launcher_.busy() && !holds_ready() && !parts_.control->holds_record() &&
                     !stopped_.load(std::memory_order_acquire);
       ++turn) {
    // Data of a launch that has ended mostly leave this process at once; arming for them would cost more than a turn.
    work = launcher_.moves_data() || !arm() || submissions_.has_news();
    if (!work) break;
    drive();
  }
  let_go(work);
}

Status Engine::lend(std::int32_t set, std::size_t bytes, execute::LentMemory** memory) {
  Loan loan{set, bytes};
  RODA_RETURN_IF_ERROR(submissions_.add_loan(&loan));
  wake_holder();
  drive_until([&] { return loan.is_over.load(std::memory_order_acquire); });
  *memory = loan.memory;
  return loan.status;
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
  std::string own = path;
  const std::size_t mark = own.find(kRankMark);
  if (mark != std::string::npos) own.replace(mark, std::strlen(kRankMark), std::to_string(parts_.rank));
  if (mark == std::string::npos && parts_.rank != 0) return 1;
  const std::string about =
      roda::format("\"rank\": {}, \"size\": {}, \"host\": {}, \"cores\": {}", parts_.rank, parts_.topology.size(),
                   json_quote(parts_.topology.host_of(parts_.rank).name), parts_.host_cores);
  // The job does not depend on its trace: it goes on without.
  if (const Status s = timeline_.open(own, mark_cycles, about); !s.ok()) RODA_LOG(error, "{}", s.message());
  return 1;
}

int Engine::stop_timeline() {
  if (parts_.knobs.timeline.empty()) return -2;
  timeline_.close();
  return 1;
}

void Engine::abort(const std::string& how) {
  const auto& where = parts_.topology.host_of(parts_.rank).name;
  parts_.control->abort({RODA_ERR_ABORTED, roda::format("Rank {} ({}) {}", parts_.rank, where, cut(how)), parts_.rank});
  wake_holder();
  const auto limit = std::chrono::duration<double>(parts_.knobs.abort_timeout_seconds);
  drive_until([this] { return stopped_.load(std::memory_order_acquire); },
              std::chrono::duration_cast<std::chrono::microseconds>(limit).count());
}

void Engine::shutdown(const std::string& how) {
  submissions_.ask_for_shutdown(cut(how));
  wake_holder();
  drive_until([this] { return stopped_.load(std::memory_order_acquire); });
  bells_.wake_engine();
  if (thread_.joinable()) thread_.join();
  submissions_.continuations().close();
  timeline_.close();
}

void Engine::end_operations(const std::vector<Operation*>& operations, const Status& status) {
  const auto now = turn_time();
  for (const Operation* op : operations) {
    if (op != nullptr) recorder_.ended(op->recorded, status, now);
  }
  submissions_.end(operations, status);
  baton_.pulse();
}

// --- what the log says, done to this rank's operations --------------------------------------------------------------

void Engine::announced(const std::string& name, int collective, std::span<const wire::RankRange> ranks) {
  if (!timeline_.active()) return;
  for (const wire::RankRange& range : ranks) {
    for (std::int32_t rank = range.first; rank <= range.last; ++rank) timeline_.announced(name, collective, rank);
  }
}

// The first of the set's members that wait says how long.
void Engine::complete(const negotiate::Agreed& tensor, std::int32_t last) {
  if (!launcher_.set(tensor.set).is_member()) return;
  const Operation* op = announcer_.announced(tensor.set, tensor.cache_bit);
  if (op == nullptr) op = submissions_.find(tensor.set, tensor.name);
  if (op == nullptr) return;
  recorder_.complete(op->recorded, last);
  bool counts = false;
  if (last_ranks_.is_idle() && last != parts_.rank) {
    const auto& members = negotiator_.members(tensor.set);
    counts = members[members.front() == last ? 1 : 0] == parts_.rank;
  }
  const auto lateness = last_ranks_.complete(tensor, last, counts, op->recorded, op->submitted, turn_time());
  if (lateness) announcer_.record().late(*lateness);
}

// The rank itself says it, to its log and to all: it may know why.
void Engine::late(const negotiate::Lateness& found) {
  if (found.is_told != 0) return last_ranks_.tell(found);
  if (found.rank != parts_.rank) return;
  const auto explained = last_ranks_.explain(found);
  if (!explained) return;
  const negotiate::Lateness& lateness = *explained;
  announcer_.record().late(lateness);
  const double before = static_cast<double>(lateness.before_first) / static_cast<double>(lateness.nanoseconds);
  RODA_LOG(
      warning,
      "Rank {} on host {} comes last in {} of {} steps, by {:.3g} ms: the others wait for it {} % of the time{}; {}.",
      parts_.rank, parts_.topology.host_of(parts_.rank).name, lateness.steps, lateness.of_steps,
      static_cast<double>(lateness.nanoseconds) / 1e6, lateness.share / 10,
      lateness.before_first < 0 || std::string_view(lateness.cause.data()).starts_with(observe::kLink) ? ""
      : before > 0.7 ? ", before a step's first tensor"
      : before < 0.3 ? ", between a step's tensors"
                     : "",
      lateness.cause.data());
}

void Engine::launch(negotiate::Launch& launch) {
  news_for_others_ = true;
  if (timeline_.active()) {
    timeline_.cycle();
    for (const negotiate::AgreedPtr& tensor : launch.tensors) {
      timeline_.agreed(tensor->name, tensor->collective);
      timeline_.launched(tensor->name, tensor->collective);
    }
  }
  if (tuner_ != nullptr) watch_for_tuner(launch);
  launcher_.note_parts(timeline_.active());
  if (!launcher_.set(launch.set).is_member()) return;
  submissions_.take_launched(launch, &announcer_, &launched_);
  const auto now = turn_time();
  for (const Operation* op : launched_) {
    if (op == nullptr) continue;
    recorder_.agreed(op->recorded, now);
    demand_.left(*op);
  }
  launcher_.add(launch, launched_);
}

void Engine::refuse(std::int32_t set, const std::string& name, const Status& error) {
  news_for_others_ = true;
  Operation* op = submissions_.find(set, name);
  // The operation may have been agreed on by its bit, and be refused with its group.
  if (op != nullptr && op->bit >= 0) announcer_.take_announced(set, op->bit, name);
  if (op != nullptr) demand_.left(*op);
  timeline_.agreed(name, op == nullptr ? RODA_ALLREDUCE : op->request.collective);
  end_operations({op}, error);
}

void Engine::announce_again(std::int32_t set, int bit) {
  if (Operation* op = announcer_.take_announced(set, bit)) announcer_.announce(op);
}

void Engine::round_over(std::int32_t set, int bit) {
  if (auto* combiner = parts_.control->combiner()) combiner->round_over(set, bit);
}

void Engine::disputed(std::int32_t set, int bit) {
  if (auto* combiner = parts_.control->combiner()) combiner->disputed(set, bit);
}

void Engine::bit_freed(std::int32_t set, int bit) { announcer_.take_announced(set, bit); }

void Engine::join_done(std::int32_t set, std::int32_t last_rank) {
  news_for_others_ = true;
  if (auto* combiner = parts_.control->combiner()) combiner->join_done(set);
  Operation* op = submissions_.find(set, kJoinName);
  if (op != nullptr) op->value = last_rank;
  end_operations({op}, Status());
}

// --- launches -------------------------------------------------------------------------------------------------------

Status Engine::context_made(execute::TransportContext& context) {
  recorder_.uses(context.name());
  if (!context.has(RODA_CAP_FAULT_TOLERANT) && !watch_) RODA_RETURN_IF_ERROR(watch_holder(context.name()));
  return bells_.watch_transport(context.event_fd());
}

// The turn that ends all launches under way may take HOROVOD_ABORT_TIMEOUT_SECONDS by itself.
Status Engine::watch_holder(const char* transport) {
  const std::chrono::duration<double> timeout(2 * parts_.knobs.abort_timeout_seconds);
  try {
    watch_.emplace(
        baton_, std::chrono::duration_cast<std::chrono::milliseconds>(timeout), kLookAtHolder,
        [this] { return parts_.control->has_failed(); }, [this, transport] { give_up(transport); });
  } catch (const std::runtime_error& error) {
    return Status::system(error.what());
  }
  return {};
}

void Engine::started(const LaunchRun& run) {
  const auto now = turn_time();
  for (const Operation* op : run.operations()) {
    if (op != nullptr) recorder_.launched(op->recorded, now);
  }
  if (!timeline_.active()) return;
  const negotiate::Launch& launch = run.launch();
  const std::string which = roda::format("{{\"launch\": {}, \"set\": {}", launch.sequence, launch.set);
  std::string args = which + roda::format(", \"plan\": {}, \"tensors\": {}, \"bytes\": {}", json_quote(run.what_runs()),
                                          launch.tensors.size(), run.bytes());
  if (const Formats& formats = run.formats(); !formats.names.empty()) {
    args += roda::format(", \"bytes_meant\": {}, \"bytes_sent\": {}", formats.meant, formats.sent);
  }
  args += "}";
  for (const auto& tensor : launch.tensors) {
    timeline_.started(tensor->name, run.activity(), args);
    args = which + "}";  // the first one's tells of all
  }
}

void Engine::finished(LaunchRun& run, const Status& status, bool is_over) {
  last_ranks_.busy();
  if (is_over && timeline_.active()) {
    const std::string& first = run.launch().tensors.front()->name;
    for (const execute::Trace::Part& part : run.trace().parts()) {
      timeline_.part(first, {part.what, part.stage + 2, part.slice, part.begin, part.end});
    }
    for (const auto& tensor : run.launch().tensors) timeline_.ended(tensor->name, tensor->dtype, tensor->shape);
  }
  end_operations(run.operations(), status);
}

void Engine::failed(const LaunchRun& run, const Status& status) {
  end_or_call_roll(Status(status.code(),
                          roda::format("Rank {}: {} failed: {} The contents of outputs are undefined.", parts_.rank,
                                       run.describe(), status.message()),
                          status.rank() >= 0 ? status.rank() : parts_.rank));
}

std::int32_t Engine::joined_device(std::int32_t set) {
  const Operation* join = submissions_.find(set, kJoinName);
  return join == nullptr ? -1 : join->request.device;
}

}  // namespace roda::engine

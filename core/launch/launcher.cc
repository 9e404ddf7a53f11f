#include "core/launch/launcher.h"

#include <algorithm>
#include <thread>
#include <utility>

#include "plugins/base/invariant.h"

namespace roda::engine {

DeviceStreams::~DeviceStreams() {
  for (auto& [number, of_device] : devices_) {
    for (const auto& lane : of_device.lanes) device_->stream_destroy(lane->stream);
    for (void* const stream : {of_device.commons.down, of_device.commons.up}) {
      if (stream != nullptr) device_->stream_destroy(stream);
    }
  }
}

void DeviceStreams::forget(execute::TransportGroup& group) {
  for (auto& [number, of_device] : devices_) {
    for (const auto& lane : of_device.lanes) {
      for (auto& [lender, buffers] : lane->buffers) buffers.forget(group);
      lane->buffers.erase(&group);
    }
  }
}

void DeviceStreams::free_buffers() {
  for (auto& [number, of_device] : devices_) {
    for (const auto& lane : of_device.lanes) lane->buffers.clear();
  }
}

Status DeviceStreams::find(std::int32_t number, std::uint64_t launch, execute::DeviceQueue* queue,
                           StreamBuffers** buffers) {
  if (device_ == nullptr) return Status::unavailable("no usable plugin for GPUs' memory; `roda-info` says why");
  OfDevice& of_device = devices_[number];
  const std::size_t turn = launch % most_;
  while (turn >= of_device.lanes.size()) {
    auto lane = std::make_unique<Lane>();
    RODA_RETURN_IF_ERROR(execute::invoke(device_->stream_create, number, &lane->stream));
    of_device.lanes.push_back(std::move(lane));
  }
  *queue = {device_, number, of_device.lanes[turn]->stream, &of_device.commons};
  *buffers = &of_device.lanes[turn]->buffers;
  return {};
}

Launcher::Launcher(Owner* owner, Planner* planner, Store* store, const Options& options)
    : owner_(owner),
      planner_(planner),
      store_(store),
      end_on_stream_(options.end_on_stream),
      contexts_(options.host),
      streams_(options.device, options.streams),
      last_device_(options.local_rank) {}

void Launcher::open_set(std::int32_t id, SetRuntime::Options options) {
  RODA_INVARIANT(!sets_.contains(id), "an id is of one process set at a time");
  sets_[id] = std::make_unique<SetRuntime>(std::move(options), store_);
}

// A rank that is no member keeps nothing of the set.
void Launcher::remove_set(std::int32_t id) {
  const auto found = sets_.find(id);
  RODA_INVARIANT(found != sets_.end(), "a process set that is removed is there");
  if (found->second->is_member()) leaving_.push_back({std::move(found->second)});
  sets_.erase(found);
  tell_of_left_sets();
}

void Launcher::end_set(std::uint64_t number) {
  // A set that is not there is another rank's.
  RODA_INVARIANT(std::ranges::all_of(leaving_,
                                     [number](const Leaving& leaving) {
                                       return leaving.set->options().number != number || leaving.is_told;
                                     }),
                 "a process set ends when this rank has said so, too");
  for (Leaving& leaving : leaving_) leaving.has_ended = leaving.has_ended || leaving.set->options().number == number;
  free_ended_sets();
}

void Launcher::add(negotiate::Launch& launch, std::vector<Operation*>& operations) {
  SetRuntime* set = sets_.at(launch.set).get();
  RODA_INVARIANT(set->is_member() && operations.size() == launch.tensors.size(),
                 "a launch has an operation, or zeros, for each tensor on each member");
  RODA_INVARIANT(launch.sequence > set->completed(), "a launch comes before its end");
  // Nobody holds tensors on devices back until others are done.
  if (launch.tensors.front()->on_device()) set->complete(launch.sequence);
  Waiting& waiting = waiting_.add();
  std::swap(waiting.launch, launch);
  waiting.operations.swap(operations);
  waiting.set = set;
}

// A run whose work lies on a device's stream as a whole holds up nobody who comes behind it there. A library's own
// collective takes no slot: any number of launches line up on the stream. A composition keeps its slot, and with it its
// memory, to its end.
bool Launcher::may_start(const LaunchRun& next) const {
  const negotiate::Launch& launch = next.launch();
  const bool on_device = launch.tensors.front()->on_device();
  return std::ranges::none_of(running_, [&](const auto& run) {
    const negotiate::Launch& other = run->launch();
    const SetRuntime::Needs needs = run->needs();
    const bool lies_there = run->lies_on_stream();
    if (on_device && !lies_there && (needs.whole_device || needs.stream_order)) return true;
    if (other.set != launch.set) return false;
    const bool shares_slot = other.sequence % kLaunchesInFlight == launch.sequence % kLaunchesInFlight;
    return (needs.whole_group && !lies_there) || (!needs.stream_order && shares_slot);
  });
}

// Where this rank's tensors of the launch lie, or its zeros, if it has joined. -1: in host memory.
std::int32_t Launcher::device_of(const Waiting& waiting) {
  const auto& devices = waiting.launch.tensors.front()->devices;
  if (devices.empty()) return -1;
  RODA_INVARIANT(devices.size() == waiting.set->options().ranks.size(), "each member has said where its tensor lies");
  const std::int32_t agreed = devices[static_cast<std::size_t>(waiting.set->options().rank)];
  if (agreed >= 0) return last_device_ = agreed;
  const std::int32_t joined = owner_->joined_device(waiting.launch.set);
  return joined >= 0 ? joined : last_device_;
}

Status Launcher::begin_next() {
  RODA_INVARIANT(next_run_ == nullptr && !waiting_.empty(), "one launch after the other gets ready");
  Waiting& front = waiting_.front();
  if (idle_runs_.empty()) idle_runs_.push_back(std::make_unique<LaunchRun>());
  next_run_ = std::move(idle_runs_.back());
  idle_runs_.pop_back();
  execute::DeviceQueue queue;
  StreamBuffers* buffers = nullptr;
  const std::int32_t device = device_of(front);
  const Status status = device < 0 ? Status() : streams_.find(device, front.launch.sequence, &queue, &buffers);
  const auto slot = static_cast<std::uint32_t>(front.launch.sequence % kLaunchesInFlight);
  next_run_->begin(front.launch, front.operations, front.set, slot, queue, buffers);
  next_run_->note_parts(notes_parts_);
  const auto goes_on = [](const Operation* op) { return op == nullptr || op->in_stream_order; };
  next_run_->tell_early(end_on_stream_.value_or(std::ranges::all_of(next_run_->operations(), goes_on)));
  waiting_.pop_front();
  return status;
}

Status Launcher::show_new_contexts() {
  for (; shown_contexts_ < contexts_.all().size(); ++shown_contexts_) {
    RODA_RETURN_IF_ERROR(owner_->context_made(*contexts_.all()[shown_contexts_]));
  }
  return {};
}

// Starts launches in their order; one whose group is still forming holds up those behind it.
bool Launcher::start_launches() {
  bool moved = false;
  while (next_run_ != nullptr || !waiting_.empty()) {
    Status status;
    if (next_run_ == nullptr) status = begin_next();
    bool goes_on = false;
    if (status.ok()) status = next_run_->connect(planner_, &contexts_, &goes_on);
    if (status.ok()) status = show_new_contexts();
    if (status.ok() && !(goes_on && may_start(*next_run_))) break;
    if (status.ok()) status = next_run_->start();
    moved = true;
    owner_->started(*next_run_);
    if (status.ok()) {
      running_.push_back(std::move(next_run_));
    } else {
      end_run(std::move(next_run_), status);
    }
  }
  return moved;
}

bool Launcher::advance() {
  bool moved = start_launches();
  if (running_.empty() && next_run_ == nullptr) return moved;
  for (const auto& context : contexts_.all()) moved = context->progress() > 0 || moved;
  const void* held_up = nullptr;  // a stream whose first run has not ended
  for (std::size_t i = 0; i < running_.size();) {
    LaunchRun& run = *running_[i];
    if (run.broken) break;
    if (held_up != nullptr && run.stream() == held_up && run.lies_on_stream() && run.has_told() == run.tells_early()) {
      ++i;
      continue;
    }
    bool done = false;
    const bool lay_there = run.lies_on_stream();
    const Status status = run.advance(&done);
    moved = moved || run.lies_on_stream() != lay_there;  // others may start behind it
    if (run.moves() != run.seen_moves) {
      run.seen_moves = run.moves();
      run.moved_at = {};  // renewed at the next look at the clock
      moved = true;
    }
    if (!done && status.ok()) {
      if (run.tells_early() && run.lies_on_stream() && !run.has_told()) {
        owner_->finished(run, status, false);
        run.forget_operations();
      }
      if (run.lies_on_stream()) held_up = run.stream();
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

bool Launcher::settle() {
  bool moved = false;
  for (const auto& context : contexts_.all()) moved = context->settle() > 0 || moved;
  free_ended_sets();
  return moved;
}

bool Launcher::is_on_device() const {
  return std::ranges::any_of(running_, [](const auto& run) { return run->is_on_device(); });
}

// All ranks come to an error by themselves where it follows from what all agreed.
void Launcher::end_run(std::unique_ptr<LaunchRun> run, const Status& status) {
  RODA_INVARIANT(run != nullptr && !run->broken, "a launch ends once");
  if (!status.ok() && status.code() != RODA_ERR_UNSUPPORTED) {
    owner_->failed(*run, status);
    run->broken = true;
    running_.push_back(std::move(run));
    return;
  }
  owner_->finished(*run, status, true);
  if (!run->launch().tensors.front()->on_device()) run->set()->complete(run->launch().sequence);
  run->finish();
  idle_runs_.push_back(std::move(run));
  tell_of_left_sets();
}

bool Launcher::is_used(const SetRuntime* set) const {
  const auto uses = [set](const auto& run) { return run->set() == set; };
  return std::ranges::any_of(running_, uses) || (next_run_ != nullptr && uses(next_run_)) ||
         waiting_.any_of([set](const Waiting& w) { return w.set == set; });
}

void Launcher::tell_of_left_sets() {
  for (Leaving& leaving : leaving_) {
    if (leaving.is_told || is_used(leaving.set.get())) continue;
    leaving.is_told = true;
    owner_->set_left(leaving.set->options().number);
  }
}

// All that was sent over their groups has been received: no member waits for anything in them.
void Launcher::free_ended_sets() {
  if (leaving_.empty() || !contexts_.are_settled()) return;
  std::erase_if(leaving_, [this](const Leaving& leaving) {
    if (!leaving.has_ended) return false;
    RODA_INVARIANT(!is_used(leaving.set.get()), "nothing runs in a process set that has ended");
    for (execute::TransportGroup* group : leaving.set->groups()) {
      for (const auto* runs : {&running_, &idle_runs_}) {
        for (const auto& run : *runs) run->forget(*group);
      }
      if (next_run_ != nullptr) next_run_->forget(*group);
      streams_.forget(*group);
    }
    return true;
  });
}

const LaunchRun* Launcher::find_overdue(CoarseClock::time_point now, CoarseClock::duration on_host,
                                        CoarseClock::duration on_device) {
  for (const auto& run : running_) {
    if (run->moved_at == CoarseClock::time_point{}) run->moved_at = now;
    if (now - run->moved_at >= (run->is_on_device() ? on_device : on_host)) return run.get();
  }
  return nullptr;
}

const LaunchRun* Launcher::abort(const Status& cause, std::chrono::steady_clock::time_point deadline) {
  for (auto& [id, set] : sets_) set->abort(cause);
  for (const Leaving& leaving : leaving_) leaving.set->abort(cause);
  for (const auto& run : running_) run->abort(cause);
  while (!running_.empty() && std::chrono::steady_clock::now() < deadline) {
    for (const auto& context : contexts_.all()) context->progress();
    std::erase_if(running_, [&](auto& run) {
      bool done = run->broken || !run->started();
      if (!done) static_cast<void>(run->advance(&done));
      if (!done || !run->quiesced()) return false;
      run->finish();
      idle_runs_.push_back(std::move(run));
      return true;
    });
    std::this_thread::yield();
  }
  waiting_.clear();
  next_run_.reset();
  return running_.empty() ? nullptr : running_.front().get();
}

void Launcher::clear() {
  running_.clear();
  idle_runs_.clear();
  next_run_.reset();
  streams_.free_buffers();
  sets_.clear();
  leaving_.clear();
  contexts_.clear();
}

}  // namespace roda::engine

#include "transports/nccl/communicator.h"

#include <utility>

#include "plugins/base/helper_thread.h"

namespace roda::nccl {
namespace {

using std::chrono::milliseconds;

// A call of NCCL's that holds the lock this long hangs, and only an abort beside it can end it.
constexpr milliseconds kPatienceForCalls{1000};
constexpr milliseconds kFinishingPause{1};

}  // namespace

Communicator::Communicator(std::shared_ptr<const Library> library, const cuda::Driver& driver, cuda::Context context,
                           const UniqueId& id, Seat seat)
    : library_(std::move(library)),
      driver_(driver),
      context_(context),
      seat_(std::move(seat)),
      state_(std::make_shared<State>()) {
  state_->library = library_;
  state_->driver = &driver_;
  state_->context = context_;
  begin(id);
}

void Communicator::begin(const UniqueId& id) {
  if (!library_->is_non_blocking()) {
    former_ = start_thread("roda-nccl-form",
                           [state = state_, id, seat = seat_] { form_blocking(state, id, seat.rank, seat.size); });
    return;
  }
  Config config;
  call("forming " + seat_.label,
       [&](Comm) { return library_->CommInitRankConfig(&state_->comm, seat_.size, id, seat_.rank, &config); });
  state_->is_formed.store(true, std::memory_order_release);
}

void Communicator::form_blocking(const std::shared_ptr<State>& state, UniqueId id, int rank, int size) {
  const cuda::ContextScope scope(*state->driver, state->context);
  Comm comm = nullptr;
  const Result result = state->library->CommInitRank(&comm, size, id, rank);
  const std::lock_guard lock(state->calls);
  state->forming = result;
  if (state->is_closed && comm != nullptr) {
    state->library->CommAbort(comm);
  } else {
    state->comm = comm;
  }
  state->is_formed.store(true, std::memory_order_release);
}

bool Communicator::poll() {
  if (!state_->is_formed.load(std::memory_order_acquire)) return false;
  const std::unique_lock lock(state_->calls, std::try_to_lock);
  if (!lock.owns_lock() || state_->is_closed) return false;
  Result found = state_->forming;
  if (found == kSuccess) {
    const Result asked = library_->CommGetAsyncError(state_->comm, &found);
    if (asked != kSuccess) found = asked;
  }
  if (found == kInProgress) return false;
  if (found != kSuccess) throw explain(*library_, driver_, state_->comm, found, seat_.label);
  return true;
}

void Communicator::abort() { start_end(milliseconds(0)); }

void Communicator::retire(milliseconds patience) {
  patience_ = patience;
  start_end(patience);
}

void Communicator::start_end(milliseconds patience) {
  if (is_ending_.exchange(true)) return;
  const std::lock_guard lock(ender_guard_);
  ender_ = start_thread("roda-nccl-end", [state = state_, patience] { end(state, patience); });
}

void Communicator::end(const std::shared_ptr<State>& state, milliseconds patience) {
  const cuda::ContextScope scope(*state->driver, state->context);
  const bool was_finished = patience > milliseconds(0) && finish_work(*state, patience);
  if (Comm comm = close(*state)) {
    if (was_finished) {
      state->library->CommDestroy(comm);
    } else {
      state->library->CommAbort(comm);
    }
  }
  {
    const std::lock_guard lock(state->mutex);
    state->is_gone.store(true, std::memory_order_release);
  }
  state->gone.notify_all();
}

// From here on nobody else uses the communicator.
Comm Communicator::close(State& state) {
  const std::unique_lock lock(state.calls, kPatienceForCalls);
  state.is_closed = true;
  return std::exchange(state.comm, nullptr);
}

// True when NCCL has finished all that was begun.
bool Communicator::finish_work(State& state, milliseconds patience) {
  const auto deadline = std::chrono::steady_clock::now() + patience;
  const std::unique_lock lock(state.calls, patience);
  if (!lock.owns_lock() || state.comm == nullptr) return false;
  const Library& library = *state.library;
  Result result = kSuccess;
  if (library.CommGetAsyncError(state.comm, &result) != kSuccess || result != kSuccess) return false;
  if (!library.is_non_blocking() || library.CommFinalize == nullptr) return true;
  result = library.CommFinalize(state.comm);
  while (result == kInProgress && std::chrono::steady_clock::now() < deadline) {
    std::this_thread::sleep_for(kFinishingPause);
    if (library.CommGetAsyncError(state.comm, &result) != kSuccess) return false;
  }
  return result == kSuccess;
}

Communicator::~Communicator() {
  start_end(patience_);
  {
    std::unique_lock lock(state_->mutex);
    state_->gone.wait_for(lock, patience_ + kPatienceForCalls * 2, [this] { return is_gone(); });
  }
  // A thread that NCCL does not let go of keeps the state alive, and nothing of ours.
  const auto leave = [](std::thread& thread, bool has_ended) {
    if (!thread.joinable()) return;
    if (has_ended) {
      thread.join();
    } else {
      thread.detach();
    }
  };
  leave(ender_, is_gone());
  leave(former_, state_->is_formed.load(std::memory_order_acquire));
}

}  // namespace roda::nccl

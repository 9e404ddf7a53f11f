// One group over MPI: a communicator of its own, messages and collectives on it, and the end of all that.
#pragma once

#include <roda/sdk/exchange.hpp>

#include <new>
#include <numeric>
#include <set>

#include "transports/mpi/channel.h"
#include "transports/mpi/context.h"
#include "transports/mpi/queue.h"
#include "transports/mpi/runtime.h"

namespace roda::mpi::RODA_MPI_FLAVOUR {

inline constexpr const char* kJobName = "roda-mpi-form";  // of its thread

// A communicator of these ranks of MPI_COMM_WORLD, in this order. Blocks until all of them have called it.
inline MPI_Comm make_communicator(const std::vector<int>& ranks, int tag) {
  Runtime& runtime = Runtime::get();
  const Library& mpi = runtime.library();
  const Runtime::BlockingCall call(runtime);
  MPI_Group world{}, members{};
  MPI_Comm made{};
  check(mpi, mpi.Comm_group(mpi.comm_world, &world), "MPI_Comm_group");
  check(mpi, mpi.Group_incl(world, static_cast<int>(ranks.size()), ranks.data(), &members), "MPI_Group_incl");
  check(mpi, mpi.Comm_create_group(mpi.comm_world, members, tag, &made), "MPI_Comm_create_group");
  mpi.Group_free(&members);
  mpi.Group_free(&world);
  mpi.Comm_set_errhandler(made, mpi.errors_return);
  return made;
}

// How a group gets its communicator.
//
// MPI_Comm_create_group involves the members alone but blocks until all have called it, so it runs on a thread, and
// only once all members are known to be ready. Two groups that form at once could wait for each other in MPI; therefore
// a process makes one communicator at a time, and members take their turns in the order of world ranks, as locks are
// taken in one order.
//
// One thread at a time, the context's caller.
class Forming {
 public:
  // `state`: the group's, which outlives this.
  Forming(const roda_host* host, const roda_group_desc& desc, const sdk::GroupState& state)
      : host_(host), state_(state), order_(static_cast<std::size_t>(desc.size)) {
    std::iota(order_.begin(), order_.end(), 0);
    std::sort(order_.begin(), order_.end(),
              [this](int a, int b) { return state_.world_rank(a) < state_.world_rank(b); });
    place_ = static_cast<std::size_t>(std::find(order_.begin(), order_.end(), state_.rank()) - order_.begin());
    if (Runtime::get().is_started()) return;
    job_.start(kJobName, [host] { Runtime::get().start(host); });
  }
  ~Forming() {
    // A job that hangs in MPI keeps the turn: nothing that comes after it would get through either.
    if (holds_turn_ && !job_.is_running()) turn_is_taken.store(false);
  }

  // One step; true when the communicator is there. Throws sdk::Failure.
  bool test() {
    switch (step_) {
      case Step::kStart:
        if (job_.is_running()) return false;
        if (job_.is_started()) job_.take();
        identify();
        step_ = Step::kIdentify;
        [[fallthrough]];
      case Step::kIdentify:
        if (!gather_.test()) return false;
        judge();
        step_ = Step::kTurn;
        [[fallthrough]];
      case Step::kTurn:
        if (!take_turn()) return false;
        step_ = Step::kOthers;
        [[fallthrough]];
      case Step::kOthers:
        if (!has_turn_of(order_.back())) return false;
        job_.start(kJobName, [made = made_, ranks = mpi_ranks_] { *made = make_communicator(ranks, kGroupTag); });
        step_ = Step::kMake;
        [[fallthrough]];
      case Step::kMake:
        if (job_.is_running()) return false;
        job_.take();
        turn_is_taken.store(false);
        holds_turn_ = false;
        step_ = Step::kReady;
        [[fallthrough]];
      case Step::kReady:
        return true;
    }
    return true;
  }
  sdk::Failure late() const {
    return state_.late(step_ == Step::kIdentify ? gather_.missing() : std::vector<int>{}, stage());
  }
  MPI_Comm communicator() const { return *made_; }

 private:
  static constexpr int kGroupTag = 0x52;  // on MPI_COMM_WORLD, in MPI's own context for creating communicators
  // What members tell each other.
  struct Identity {
    char library[96];
    char job[128];
    std::int32_t world_rank;
    std::int32_t world_size;
  };
  static void copy(const std::string& text, char* to, std::size_t room) {
    std::memcpy(to, text.data(), std::min(text.size(), room - 1));
  }
  // Taken by the group whose communicator this process makes.
  static inline std::atomic<bool> turn_is_taken{false};

  enum class Step { kStart, kIdentify, kTurn, kOthers, kMake, kReady };

  void identify() {
    Runtime& runtime = Runtime::get();
    Identity identity{};
    copy(runtime.library().version_text(), identity.library, sizeof identity.library);
    copy(runtime.job(), identity.job, sizeof identity.job);
    identity.world_rank = runtime.world_rank();
    identity.world_size = runtime.world_size();
    gather_ = state_.gather("mpi.who", &identity, sizeof identity);
  }
  // All members are different processes of one MPI world, or nothing could connect them.
  void judge() {
    const auto mine = gather_.value_as<Identity>(state_.rank());
    std::set<int> seen;
    for (int member = 0; member < state_.size(); ++member) {
      const auto theirs = gather_.value_as<Identity>(member);
      const int rank = state_.world_rank(member);
      const std::string who = "mpi: rank " + std::to_string(rank);
      if (std::strcmp(mine.library, theirs.library) != 0) {
        throw sdk::Failure(RODA_ERR_PRECONDITION, who + " runs " + theirs.library + " and this rank " + mine.library,
                           rank);
      }
      const bool is_unique = seen.insert(theirs.world_rank).second;
      const bool is_same = std::strcmp(mine.job, theirs.job) == 0 && mine.world_size == theirs.world_size;
      if (!is_unique || !is_same) {
        throw sdk::Failure(RODA_ERR_PRECONDITION,
                           who + " is MPI rank " + std::to_string(theirs.world_rank) + " of " +
                               std::to_string(theirs.world_size) + " in another MPI job than this rank, MPI rank " +
                               std::to_string(mine.world_rank) + " of " + std::to_string(mine.world_size) +
                               ": start all ranks by one mpirun (or horovodrun --mpi), or use another transport",
                           rank);
      }
      mpi_ranks_.push_back(theirs.world_rank);
    }
  }
  bool take_turn() {
    if (place_ > 0 && !has_turn_of(order_[place_ - 1])) return false;
    if (!holds_turn_ && turn_is_taken.exchange(true)) return false;
    holds_turn_ = true;
    state_.put("mpi.turn", nullptr, 0);
    return true;
  }
  bool has_turn_of(int member) {
    return member == state_.rank() ? holds_turn_ : state_.get(member, "mpi.turn", nullptr, 0);
  }
  std::string stage() const {
    if (step_ == Step::kIdentify) return {};
    if (step_ == Step::kTurn) return "another group formed meanwhile";
    return step_ == Step::kStart ? "waiting in MPI_Init_thread for the MPI job's other processes"
                                 : "waiting for members to make the communicator";
  }

  const roda_host* const host_;
  const sdk::GroupState& state_;

  Step step_ = Step::kStart;
  HelperCall<void> job_;
  sdk::Allgather gather_;
  std::vector<int> mpi_ranks_;  // of the members in MPI_COMM_WORLD
  std::vector<int> order_;      // members by world rank
  std::size_t place_ = 0;       // of this one in it
  bool holds_turn_ = false;
  std::shared_ptr<MPI_Comm> made_ = std::make_shared<MPI_Comm>();  // set by the job
};

// For a communicator to be freed while a helper is inside MPI; what comes too late is left to the process's end.
inline constexpr std::chrono::seconds kTimeoutToFree{1};

// The entries are those of roda/sdk/transport.hpp. abort() from any thread, the others from the context's caller.
//
// MPI can't take back what was started. An abort therefore ends operations for their callers, forgets receives whose
// message has not come, and leaves the rest to the context; the communicator is never freed then, because a late
// message for it would be taken for one of the next communicator that gets its number.
class Group {
 public:
  using Request = Operation;

  Group(Context& context, const roda_group_desc& desc) : context_(&context), state_("mpi", desc) {
    if (state_.size() == 1) {
      state_.set_formed();
    } else {
      forming_ = std::make_unique<Forming>(context.host(), desc, state_);
    }
  }
  ~Group() {
    for (Request* operation : std::vector<Request*>(live_)) drop(operation);
    if (channel_ == nullptr) return;
    context_->remove(this);
    if (state_.is_broken()) return;
    const Runtime::Turn turn(context_->runtime(), kTimeoutToFree);
    if (!turn) return;
    MPI_Comm communicator = forming_->communicator();
    context_->runtime().library().Comm_free(&communicator);
  }

  bool test() {
    const auto step = [this] {
      if (!forming_->test()) return false;
      channel_ = std::make_unique<Channel>(context_->runtime(), context_->queue(), forming_->communicator(), state_);
      context_->add(this);
      context_->pump().serve(std::chrono::nanoseconds(state_.timeout_ns()));
      return true;
    };
    return state_.form(
        step, [this] { return forming_->late(); }, [this](const sdk::Failure& failure) { state_.abort(failure); });
  }
  void abort(const sdk::Failure& cause) { state_.abort(cause); }
  // Takes in messages; with a Turn.
  int poll() {
    if (state_.is_broken()) return 0;
    int taken = 1;
    attempt([&] { taken = channel_->poll(); });
    return taken;
  }

  int32_t send(int peer, std::uint64_t tag, const void* data, std::size_t bytes, const roda_memory*,
               Request** request) {
    return start_message(Operation::Kind::kSend, peer, tag, data, bytes, request);
  }
  int32_t receive(int peer, std::uint64_t tag, void* data, std::size_t bytes, const roda_memory*, Request** request) {
    return start_message(Operation::Kind::kReceive, peer, tag, data, bytes, request);
  }
  int32_t start(const roda_collective_args& args, Request** request) {
    state_.throw_if_broken();
    if (!Context::collective_supported(args.collective, args.dtype, args.op, args.memory_kind)) {
      throw sdk::no_such_collective("mpi", args);
    }
    if (sdk::is_trivial(args, state_.size())) return RODA_OK;
    if (!state_.is_formed()) state_.refuse(state_.rank());
    const auto start = [&](Request* operation) {
      start_collective(context_->runtime().library(), context_->host(),
                       {forming_->communicator(), state_.rank(), state_.size()}, args, &context_->queue(), operation);
      return false;
    };
    return begin(Operation::Kind::kCollective, -1, args.tag, start, request);
  }
  int32_t test(Request* operation) {
    if (operation->is_done()) {
      const int code = operation->code, peer = operation->peer;
      const std::string text = code == RODA_OK ? std::string() : operation->text;
      release(operation);
      if (code == RODA_OK) return RODA_OK;
      throw sdk::Failure(code, text, peer < 0 ? -1 : state_.world_rank(peer));
    }
    if (state_.is_broken()) {
      drop(operation);
      state_.throw_if_broken();
    }
    const std::chrono::nanoseconds limit(state_.timeout_ns());
    if (limit.count() > 0 && Clock::now() - operation->started > limit) time_out(operation);
    return RODA_IN_PROGRESS;
  }
  bool is_quiet(const void* base, std::size_t bytes) const {
    return !context_->queue().touches(base, bytes) &&
           std::none_of(live_.begin(), live_.end(),
                        [&](const Request* operation) { return operation->touches(base, bytes); });
  }

 private:
  int32_t start_message(Operation::Kind kind, int peer, std::uint64_t tag, const void* data, std::size_t bytes,
                        Request** request) {
    if (!state_.works() || !state_.is_peer(peer)) state_.refuse(peer);
    const auto start = [&](Request* message) {
      message->touched[0] = {data, bytes};
      return kind == Operation::Kind::kSend ? channel_->send(message) : channel_->receive(message);
    };
    return begin(kind, peer, tag, start, request);
  }
  // Runs `body`, whose failure is the end of the group: what was to be sent or taken in is lost, and others wait for
  // it.
  template <typename Body>
  void attempt(Body&& body) {
    try {
      body();
    } catch (const std::bad_alloc&) {
      state_.abort({RODA_ERR_NO_MEMORY, "mpi: out of memory"});
    } catch (const sdk::Failure& failure) {
      state_.abort(failure);
    }
  }
  // Has `start` begin an operation, which says whether it is done already.
  template <typename Start>
  int32_t begin(Operation::Kind kind, int peer, std::uint64_t tag, Start&& start, Request** request) {
    const Runtime::Turn turn(context_->runtime());
    if (!turn) return RODA_AGAIN;
    Request* operation = context_->queue().take();
    operation->restart(kind, peer, tag);
    operation->place = live_.size();
    live_.push_back(operation);
    bool is_done = false;
    attempt([&] { is_done = start(operation); });
    if (state_.is_broken()) {
      drop(operation);
      state_.throw_if_broken();
    }
    if (is_done) {
      release(operation);
    } else {
      *request = operation;
    }
    return RODA_OK;
  }
  void take_back(Request* operation) {
    live_[operation->place] = live_.back();
    live_.back()->place = operation->place;
    live_.pop_back();
  }
  // The operation has ended, and its caller knows.
  void release(Request* operation) {
    take_back(operation);
    context_->queue().give_back(operation);
    context_->pump().note();
  }
  // Ends `operation` for its caller; MPI may go on with it.
  void drop(Request* operation) {
    take_back(operation);
    if (operation->kind == Operation::Kind::kReceive) channel_->withdraw(operation);
    context_->queue().orphan(operation);
  }
  [[noreturn]] void time_out(Request* operation) {
    const bool is_message = operation->peer >= 0;
    const sdk::Failure late =
        is_message
            ? state_.stood_still("a message with", operation->peer)
            : sdk::Failure(RODA_ERR_TIMEOUT, state_.text(std::string("had a collective that was not over within the "
                                                                     "limit; ") +
                                                         sdk::GroupState::kRaise));
    state_.abort(late);
    drop(operation);
    throw late;
  }

  Context* const context_;
  sdk::GroupState state_;
  std::unique_ptr<Forming> forming_;  // null for a group of one
  std::unique_ptr<Channel> channel_;  // once formed
  std::vector<Request*> live_;        // handed out
};

}  // namespace roda::mpi::RODA_MPI_FLAVOUR

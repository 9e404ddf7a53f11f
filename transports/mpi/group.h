// One group over MPI: a communicator of its own, messages and collectives on it, and the end of all that.
#pragma once

#include <roda/sdk/exchange.hpp>

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
      : host_(host), exchange_(desc.exchange), state_(state), order_(static_cast<std::size_t>(desc.size)) {
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
    gather_ = sdk::Allgather(exchange_, state_.rank(), state_.size(), "mpi.who");
    gather_.start(&identity, sizeof identity);
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
    return sdk::is_through(
        [this](roda_error* error) { return exchange_.put(exchange_.self, "mpi.turn", "t", 1, error); });
  }
  bool has_turn_of(int member) {
    if (member == state_.rank()) return holds_turn_;
    char value = 0;
    std::size_t bytes = 1;
    return sdk::is_through(
        [&](roda_error* error) { return exchange_.get(exchange_.self, member, "mpi.turn", &value, &bytes, error); });
  }
  std::string stage() const {
    if (step_ == Step::kIdentify) return {};
    if (step_ == Step::kTurn) return "another group formed meanwhile";
    return step_ == Step::kStart ? "waiting in MPI_Init_thread for the MPI job's other processes"
                                 : "waiting for members to make the communicator";
  }

  const roda_host* const host_;
  const roda_exchange exchange_;
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

// The entries are those of roda/sdk/transport.hpp. abort() from any thread, the others from the context's caller.
//
// MPI can't take back what was started. An abort therefore ends operations for their callers, forgets receives whose
// message has not come, and leaves the rest to the context; the communicator is never freed then, because a late
// message for it would be taken for one of the next communicator that gets its number.
class Group {
 public:
  using Request = Operation;

  Group(Context& context, const roda_group_desc& desc);
  ~Group();

  bool test();
  void abort(const sdk::Failure& cause) { state_.abort(cause); }
  // Takes in messages; with a Turn.
  int poll();

  int32_t send(int peer, std::uint64_t tag, const void* data, std::size_t bytes, const roda_memory*,
               Request** request) {
    return start_message(Operation::Kind::kSend, peer, tag, data, bytes, request);
  }
  int32_t receive(int peer, std::uint64_t tag, void* data, std::size_t bytes, const roda_memory*, Request** request) {
    return start_message(Operation::Kind::kReceive, peer, tag, data, bytes, request);
  }
  int32_t start(const roda_collective_args& args, Request** request);
  int32_t test(Request* request);
  bool is_quiet(const void* base, std::size_t bytes) const;

 private:
  int32_t start_message(Operation::Kind kind, int peer, std::uint64_t tag, const void* data, std::size_t bytes,
                        Request** request);
  // Runs `body`, whose failure is the end of the group: what was to be sent or taken in is lost, and others wait for
  // it.
  template <typename Body>
  void attempt(Body&& body);
  // Has `start` begin an operation, which says whether it is done already.
  template <typename Start>
  int32_t begin(Operation::Kind kind, int peer, std::uint64_t tag, Start&& start, Request** request);
  void take_back(Request* operation);
  // It has ended, and its caller knows.
  void release(Request* operation);
  // Ends `operation` for its caller; MPI may go on with it.
  void drop(Request* operation);
  [[noreturn]] void time_out(Request* operation);

  Context* const context_;
  sdk::GroupState state_;
  std::unique_ptr<Forming> forming_;  // null for a group of one
  std::unique_ptr<Channel> channel_;  // once formed
  std::vector<Request*> live_;        // handed out
};

}  // namespace roda::mpi::RODA_MPI_FLAVOUR

#include "transports/mpi/group.h"

#include <new>

namespace roda::mpi::RODA_MPI_FLAVOUR {
namespace {

// For a communicator to be freed while a helper is inside MPI; what comes too late is left to the process's end.
constexpr std::chrono::seconds kPatienceToFree{1};

}  // namespace

Group::Group(Context& context, const roda_group_desc& desc) : context_(&context), state_("mpi", desc) {
  if (state_.size() == 1) {
    state_.set_formed();
  } else {
    forming_ = std::make_unique<Forming>(context.host(), desc, state_);
  }
}

Group::~Group() {
  for (Request* operation : std::vector<Request*>(live_)) drop(operation);
  if (channel_ == nullptr) return;
  context_->leave(this);
  if (state_.is_broken()) return;
  const Runtime::Turn turn(context_->runtime(), kPatienceToFree);
  if (!turn) return;
  MPI_Comm communicator = forming_->communicator();
  context_->runtime().library().Comm_free(&communicator);
}

bool Group::test() {
  const auto step = [this] {
    if (!forming_->test()) return false;
    channel_ = std::make_unique<Channel>(context_->runtime(), context_->queue(), forming_->communicator(), state_);
    context_->join(this);
    context_->pump().serve(std::chrono::nanoseconds(state_.timeout_ns()));
    return true;
  };
  return state_.form(
      step, [this] { return forming_->late(); }, [this](const sdk::Failure& failure) { state_.abort(failure); });
}

template <typename Body>
void Group::attempt(Body&& body) {
  try {
    body();
  } catch (const std::bad_alloc&) {
    state_.abort({RODA_ERR_NO_MEMORY, "mpi: out of memory"});
  } catch (const sdk::Failure& failure) {
    state_.abort(failure);
  }
}

int Group::poll() {
  if (state_.is_broken()) return 0;
  int taken = 1;
  attempt([&] { taken = channel_->poll(); });
  return taken;
}

template <typename Start>
int32_t Group::begin(Operation::Kind kind, int peer, std::uint64_t tag, Start&& start, Request** request) {
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

int32_t Group::start_message(Operation::Kind kind, int peer, std::uint64_t tag, const void* data, std::size_t bytes,
                             Request** request) {
  if (!state_.works() || !state_.is_peer(peer)) state_.refuse(peer);
  const auto start = [&](Request* message) {
    message->touched[0] = {data, bytes};
    return kind == Operation::Kind::kSend ? channel_->send(message) : channel_->receive(message);
  };
  return begin(kind, peer, tag, start, request);
}

int32_t Group::start(const roda_collective_args& args, Request** request) {
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

int32_t Group::test(Request* operation) {
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

void Group::time_out(Request* operation) {
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

void Group::take_back(Request* operation) {
  live_[operation->place] = live_.back();
  live_.back()->place = operation->place;
  live_.pop_back();
}

void Group::release(Request* operation) {
  take_back(operation);
  context_->queue().give_back(operation);
  context_->pump().note();
}

void Group::drop(Request* operation) {
  take_back(operation);
  if (operation->kind == Operation::Kind::kReceive) channel_->withdraw(operation);
  context_->queue().orphan(operation);
}

bool Group::is_quiet(const void* base, std::size_t bytes) const {
  return !context_->queue().touches(base, bytes) &&
         std::none_of(live_.begin(), live_.end(),
                      [&](const Request* operation) { return operation->touches(base, bytes); });
}

}  // namespace roda::mpi::RODA_MPI_FLAVOUR

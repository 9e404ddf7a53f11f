#include "transports/mpi/group.h"

#include <algorithm>
#include <new>

namespace roda::mpi::RODA_MPI_FLAVOUR {
namespace {

// For a communicator to be freed while a helper is inside MPI; what comes too late is left to the process's end.
constexpr std::chrono::seconds kPatience{1};

// What was to be sent or taken in is lost, and the peer waits for it: the end of the group.
sdk::Failure out_of_memory() { return {RODA_ERR_NO_MEMORY, "mpi: out of memory"}; }

}  // namespace

Group::Group(Context& context, const roda_group_desc& desc)
    : context_(&context),
      rank_(desc.rank),
      size_(desc.size),
      name_(desc.name),
      world_ranks_(desc.world_ranks, desc.world_ranks + desc.size),
      timeout_(desc.timeout_ns) {
  if (size_ > 1) forming_ = std::make_unique<Forming>(context.host(), desc);
}

Group::~Group() {
  for (Request* operation : std::vector<Request*>(live_)) drop(operation);
  if (channel_ == nullptr) return;
  context_->leave(this);
  if (cause_.is_set()) return;
  const Runtime::Turn turn(context_->runtime(), kPatience);
  if (!turn) return;
  MPI_Comm communicator = forming_->communicator();
  context_->runtime().library().Comm_free(&communicator);
}

bool Group::test() {
  cause_.throw_if_set();
  if (forming_ == nullptr || channel_ != nullptr) return true;
  try {
    if (!forming_->test()) return false;
  } catch (const sdk::Failure& failure) {
    cause_.set(failure);
    throw;
  }
  channel_ = std::make_unique<Channel>(context_->runtime(), context_->queue(), forming_->communicator(), world_ranks_);
  context_->join(this);
  context_->pump().serve(timeout_);
  return true;
}

int Group::poll() {
  if (cause_.is_set()) return 0;
  try {
    return channel_->poll();
  } catch (const std::bad_alloc&) {
    cause_.set(out_of_memory());
  } catch (const sdk::Failure& failure) {
    cause_.set(failure);
  }
  return 1;
}

void Group::check_peer(int peer) const {
  if (peer < 0 || peer >= size_ || peer == rank_) {
    throw sdk::Failure(RODA_ERR_INVALID, "mpi: no peer " + std::to_string(peer) + " in " + label());
  }
  if (channel_ == nullptr) throw sdk::Failure(RODA_ERR_PRECONDITION, "mpi: " + label() + " has not formed yet");
}

int32_t Group::send(int peer, std::uint64_t tag, const void* data, std::size_t bytes, const roda_memory*,
                    Request** request) {
  return start_message(Operation::Kind::kSend, peer, tag, data, bytes, request);
}

int32_t Group::receive(int peer, std::uint64_t tag, void* data, std::size_t bytes, const roda_memory*,
                       Request** request) {
  return start_message(Operation::Kind::kReceive, peer, tag, data, bytes, request);
}

int32_t Group::start_message(Operation::Kind kind, int peer, std::uint64_t tag, const void* data, std::size_t bytes,
                             Request** request) {
  cause_.throw_if_set();
  check_peer(peer);
  const Runtime::Turn turn(context_->runtime());
  if (!turn) return RODA_AGAIN;
  Request* message = context_->queue().take();
  message->restart(kind, peer, tag);
  message->touched[0] = {data, bytes};
  hand_out(message);
  bool is_done = false;
  try {
    is_done = kind == Operation::Kind::kSend ? channel_->send(message) : channel_->receive(message);
  } catch (const std::bad_alloc&) {
    cause_.set(out_of_memory());
  } catch (const sdk::Failure& failure) {
    cause_.set(failure);
  }
  if (cause_.is_set()) {
    drop(message);
    cause_.throw_if_set();
  }
  if (is_done) {
    take_back(message);
    context_->queue().give_back(message);
    context_->pump().note();
    return RODA_OK;
  }
  *request = message;
  return RODA_OK;
}

int32_t Group::start(const roda_collective_args& args, Request** request) {
  cause_.throw_if_set();
  if (!Context::collective_supported(args.collective, args.dtype, args.op, args.memory_kind)) {
    throw sdk::Failure(RODA_ERR_UNSUPPORTED, std::string("mpi: no ") + roda_collective_name(args.collective) + " of " +
                                                 roda_dtype_name(args.dtype));
  }
  if (is_trivial(args, size_)) return RODA_OK;
  if (channel_ == nullptr) throw sdk::Failure(RODA_ERR_PRECONDITION, "mpi: " + label() + " has not formed yet");
  const Runtime::Turn turn(context_->runtime());
  if (!turn) return RODA_AGAIN;
  Request* operation = context_->queue().take();
  operation->restart(Operation::Kind::kCollective, -1, args.tag);
  hand_out(operation);
  try {
    start_collective(context_->runtime().library(), context_->host(), {forming_->communicator(), rank_, size_}, args,
                     &context_->queue(), operation);
  } catch (const sdk::Failure& failure) {
    // Part of it may run, and the other ranks' next collective would meet it.
    cause_.set(failure);
    drop(operation);
    throw;
  }
  *request = operation;
  return RODA_OK;
}

int32_t Group::test(Request* operation) {
  if (operation->is_done()) {
    const int code = operation->code, peer = operation->peer;
    const std::string text = code == RODA_OK ? std::string() : operation->text;
    take_back(operation);
    context_->queue().give_back(operation);
    context_->pump().note();
    if (code == RODA_OK) return RODA_OK;
    throw sdk::Failure(code, text, peer < 0 ? -1 : world_ranks_[static_cast<std::size_t>(peer)]);
  }
  if (cause_.is_set()) {
    drop(operation);
    cause_.throw_if_set();
  }
  if (timeout_.count() > 0 && Clock::now() - operation->started > timeout_) time_out(operation);
  return RODA_IN_PROGRESS;
}

void Group::time_out(Request* operation) {
  const bool is_message = operation->peer >= 0;
  const int rank = is_message ? world_ranks_[static_cast<std::size_t>(operation->peer)] : -1;
  const std::string what = is_message ? "a message with rank " + std::to_string(rank) : "a collective";
  const sdk::Failure late(RODA_ERR_TIMEOUT,
                          "mpi: " + what + " in " + label() +
                              " was not over within the limit; if the rank is merely slow, raise "
                              "HOROVOD_GLOO_TIMEOUT_SECONDS",
                          rank);
  cause_.set(late);
  drop(operation);
  throw late;
}

void Group::hand_out(Request* operation) {
  operation->place = live_.size();
  live_.push_back(operation);
}

void Group::take_back(Request* operation) {
  live_[operation->place] = live_.back();
  live_.back()->place = operation->place;
  live_.pop_back();
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

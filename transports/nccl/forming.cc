// How a group comes to be.
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "transports/nccl/group.h"
#include "transports/nccl/library.h"

namespace roda::nccl {
namespace {

constexpr std::size_t kTrialBytes = std::size_t{64} << 10;

std::string rank_text(std::int32_t rank) { return "rank " + std::to_string(rank); }

bool is_same(const cuda::Uuid& a, const cuda::Uuid& b) { return std::memcmp(a.bytes, b.bytes, sizeof a.bytes) == 0; }

std::string place(const Card& card) {
  return "device " + std::to_string(card.device) + " of its process on " + std::string(card.host);
}

void check_pair(const Card& a, std::int32_t a_rank, const Card& b, std::int32_t b_rank) {
  if (a.version != b.version) {
    throw sdk::Failure(RODA_ERR_PRECONDITION,
                       "nccl: the ranks' NCCL differ: " + rank_text(a_rank) + " has " + version_text(a.version) + " (" +
                           a.path + " on " + a.host + "), " + rank_text(b_rank) + " has " + version_text(b.version) +
                           " (" + b.path + " on " + b.host + "); install the same on all, or set RODA_NCCL_LIBRARY",
                       b_rank);
  }
  if (is_same(a.gpu, b.gpu) && (a.shares == 0 || b.shares == 0)) {
    throw sdk::Failure(RODA_ERR_PRECONDITION,
                       "nccl: " + rank_text(a_rank) + " and " + rank_text(b_rank) + " use the same GPU (" + place(b) +
                           "), which NCCL does not allow: give each rank of a host its own "
                           "(torch.cuda.set_device(hvd.local_rank())) and start no more ranks on a host than it has "
                           "GPUs; docs/gpu.md, \"Several processes on one GPU\", says how they share one",
                       b_rank);
  }
}

template <std::size_t N>
void write_text(char (&to)[N], const std::string& text) {
  std::snprintf(to, N, "%s", text.c_str());
}

// The registering that all ranks can do.
template <typename Of>
Registering least(int size, Of&& of) {
  Registering least = Registering::kWindows;
  for (int rank = 0; rank < size; ++rank) least = std::min(least, of(rank));
  return least;
}

// Registers the memory and takes that back.
Registering try_registering(const Library& library, Comm comm, void* memory, Registering most) {
  const auto is_done = [&](Result result) { return Communicator::wait(library, comm, result) == kSuccess; };
  void* handle = nullptr;
  if (most == Registering::kWindows) {
    if (!is_done(library.CommWindowRegister(comm, memory, kTrialBytes, &handle, kSymmetric))) {
      return Registering::kNothing;
    }
    // NCCL gives no window where the GPUs don't reach each other's memory.
    if (handle != nullptr && is_done(library.CommWindowDeregister(comm, handle))) return Registering::kWindows;
  }
  const bool is_registered = is_done(library.CommRegister(comm, memory, kTrialBytes, &handle));
  return is_registered && is_done(library.CommDeregister(comm, handle)) ? Registering::kBuffers : Registering::kNothing;
}

bool names_a_device(const roda_group_desc& desc) {
  return desc.struct_size >= offsetof(roda_group_desc, device) + sizeof desc.device && desc.has_device != 0;
}

}  // namespace

void check_cards(const std::vector<Card>& cards, const std::vector<std::int32_t>& world_ranks) {
  for (std::size_t i = 0; i < cards.size(); ++i) {
    if (cards[i].layout != Card::kLayout) {
      throw sdk::Failure(RODA_ERR_PRECONDITION, "nccl: " + rank_text(world_ranks[i]) + " has another plugin",
                         world_ranks[i]);
    }
    if (cards[i].failure_code == 0) continue;
    throw sdk::Failure(cards[i].failure_code,
                       rank_text(world_ranks[i]) + " on " + cards[i].host + ": " + cards[i].failure, world_ranks[i]);
  }
  for (std::size_t i = 0; i < cards.size(); ++i) {
    for (std::size_t j = i + 1; j < cards.size(); ++j) {
      check_pair(cards[i], world_ranks[i], cards[j], world_ranks[j]);
    }
  }
}

// A failure here is published, so that no other rank waits for this one.
Card Group::make_card(const roda_group_desc& desc) {
  Card card;
  char host[sizeof card.host] = {};
  ::gethostname(host, sizeof host - 1);
  write_text(card.host, host);
  try {
    const Library& library = *context_.library();
    card.version = library.version;
    write_text(card.path, library.path);
    // Before NCCL looks: it refuses two ranks on one GPU of one host.
    if (context_.may_share()) ::setenv("NCCL_HOSTID", ("roda-" + std::to_string(::getpid())).c_str(), 0);
    card.shares = context_.may_share() ? 1 : 0;
    card.device = choose_device(desc);
    gpu_ = &context_.gpu(card.device);
    card.gpu = gpu_->uuid();
    stream_ = gpu_->next_stream(context_.stream_slots());
    prepare_trial();
    if (trial_->memory != nullptr) {
      card.registers = library.has_windows() ? Registering::kWindows : Registering::kBuffers;
    }
    if (state_.rank() == 0) {
      const cuda::ContextScope scope(gpu_->driver(), gpu_->context());
      const Result result = library.GetUniqueId(&card.id);
      if (result != kSuccess) throw explain(library, gpu_->driver(), nullptr, result, "ncclGetUniqueId");
    }
  } catch (const sdk::Failure& failure) {
    card.failure_code = failure.code();
    write_text(card.failure, failure.what());
  }
  return card;
}

int Group::choose_device(const roda_group_desc& desc) {
  cuda::Devices& devices = cuda::Devices::get(context_.driver());
  check(devices.start());
  if (names_a_device(desc)) return desc.device;
  const int current = devices.current_device();
  if (current >= 0) return current;
  const char* local_rank = context_.host()->knob(context_.host()->self, "HOROVOD_LOCAL_RANK");
  return (local_rank != nullptr ? std::atoi(local_rank) : 0) % devices.count();
}

// As the memory of buffers will be.
void Group::prepare_trial() {
  const Library& library = *context_.library();
  if (!context_.may_register() || !library.registers_buffers()) return;
  const cuda::ContextScope scope(gpu_->driver(), gpu_->context());
  if (library.MemAlloc(&trial_->memory, kTrialBytes) != kSuccess) trial_->memory = nullptr;
}

// NCCL wants the buffers of one collective to be registered on every rank or on none. So each member tries it.
void Group::begin_trial() {
  if (registers_ == Registering::kNothing) return state_.set_formed();
  communicator_->call("trying to register memory with " + state_.label(),
                      [library = context_.library(), trial = trial_, most = registers_](Comm comm) {
                        trial->found = try_registering(*library, comm, trial->memory, most);
                        return kSuccess;
                      });
  step_ = Step::kTrial;
}

void Group::free_trial() {
  if (trial_->memory == nullptr) return;
  const cuda::ContextScope scope(gpu_->driver(), gpu_->context());
  context_.library()->MemFree(std::exchange(trial_->memory, nullptr));
}

void Group::end_trial() {
  free_trial();
  verdicts_ = state_.gather("nccl.registers", &trial_->found, sizeof trial_->found);
  step_ = Step::kVerdicts;
}

void Group::read_verdicts() {
  registers_ = least(state_.size(), [this](int rank) { return verdicts_.value_as<Registering>(rank); });
  state_.set_formed();
}

void Group::read_cards() {
  std::vector<Card> cards;
  for (int rank = 0; rank < state_.size(); ++rank) cards.push_back(gather_.value_as<Card>(rank));
  check_cards(cards, state_.world_ranks());
  registers_ = least(state_.size(), [&](int rank) { return cards[static_cast<std::size_t>(rank)].registers; });
  auto made = std::make_unique<Communicator>(context_.library(), gpu_->driver(), gpu_->context(), cards[0].id,
                                             Communicator::Seat{state_.rank(), state_.size(), state_.label()});
  const MutexLock lock(communicator_guard_);
  communicator_ = std::move(made);
  // An abort that came in between found nothing to abort.
  if (state_.is_broken()) communicator_->abort();
  step_ = Step::kConnect;
}

}  // namespace roda::nccl

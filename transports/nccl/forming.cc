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
    card.registers = library.registers_buffers() && context_.may_register() ? 1 : 0;
    card.device = choose_device(desc);
    gpu_ = &context_.gpu(card.device);
    card.gpu = gpu_->uuid();
    stream_ = gpu_->next_stream(context_.stream_slots());
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

void Group::read_cards() {
  std::vector<Card> cards;
  for (int rank = 0; rank < state_.size(); ++rank) cards.push_back(gather_.value_as<Card>(rank));
  check_cards(cards, state_.world_ranks());
  may_register_ = std::all_of(cards.begin(), cards.end(), [](const Card& card) { return card.registers != 0; });
  auto made = std::make_unique<Communicator>(context_.library(), gpu_->driver(), gpu_->context(), cards[0].id,
                                             Communicator::Seat{state_.rank(), state_.size(), state_.label()});
  const MutexLock lock(communicator_guard_);
  communicator_ = std::move(made);
  // An abort that came in between found nothing to abort.
  if (state_.is_broken()) communicator_->abort();
  step_ = Step::kConnect;
}

}  // namespace roda::nccl

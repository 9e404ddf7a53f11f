// How a group comes to be.
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "transports/nccl/explain.h"
#include "transports/nccl/group.h"

namespace roda::nccl {
namespace {

template <std::size_t N>
void write_text(char (&to)[N], const std::string& text) {
  std::snprintf(to, N, "%s", text.c_str());
}

bool names_a_device(const roda_group_desc& desc) {
  return desc.struct_size >= offsetof(roda_group_desc, device) + sizeof desc.device && desc.has_device != 0;
}

}  // namespace

Group::Group(Context& context, const roda_group_desc& desc)
    : context_(context),
      rank_(desc.rank),
      size_(desc.size),
      name_(desc.name),
      world_ranks_(desc.world_ranks, desc.world_ranks + desc.size),
      timeout_(desc.timeout_ns),
      created_(Clock::now()),
      gather_(desc.exchange, desc.rank, desc.size, "nccl.card"),
      verdicts_(desc.exchange, desc.rank, desc.size, "nccl.registers") {
  const Card card = make_card(desc);
  gather_.start(&card, sizeof card);
  context_.join(this);
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
    card.registers = library.registers_buffers() && context_.may_register() ? 1 : 0;
    card.device = choose_device(desc);
    gpu_ = &context_.gpu(card.device);
    card.gpu = gpu_->uuid();
    stream_ = gpu_->next_stream(context_.stream_slots());
    if (rank_ == 0) {
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

bool Group::test() {
  cause_.throw_if_set();
  if (step_ == Step::kReady) return true;
  try {
    step_on();
    if (step_ != Step::kReady) check_deadline();
  } catch (const sdk::Failure& failure) {
    break_with(failure);
    cause_.throw_if_set();
  }
  return step_ == Step::kReady;
}

void Group::step_on() {
  if (step_ == Step::kCards && gather_.test()) read_cards();
  if (step_ == Step::kConnect && communicator_->poll()) agree_on_registering();
  if (step_ == Step::kVerdicts && verdicts_.test()) read_verdicts();
}

void Group::agree_on_registering() {
  step_ = may_register_ ? Step::kVerdicts : Step::kReady;
  if (!may_register_) return;
  const char can = try_registering() ? 1 : 0;
  verdicts_.start(&can, sizeof can);
}

void Group::read_verdicts() {
  registers_ = true;
  for (int rank = 0; rank < size_; ++rank) registers_ = registers_ && *verdicts_.value(rank) == 1;
  step_ = Step::kReady;
}

void Group::read_cards() {
  std::vector<Card> cards(static_cast<std::size_t>(size_));
  for (int rank = 0; rank < size_; ++rank) {
    std::memcpy(&cards[static_cast<std::size_t>(rank)], gather_.value(rank), sizeof(Card));
  }
  check_cards(cards, world_ranks_);
  may_register_ = std::all_of(cards.begin(), cards.end(), [](const Card& card) { return card.registers != 0; });
  auto made = std::make_unique<Communicator>(context_.library(), gpu_->driver(), gpu_->context(), cards[0].id,
                                             Communicator::Seat{rank_, size_, label()});
  const std::lock_guard lock(communicator_guard_);
  communicator_ = std::move(made);
  // An abort that came in between found nothing to abort.
  if (cause_.is_set()) communicator_->abort();
  step_ = Step::kConnect;
}

void Group::check_deadline() const {
  if (timeout_.count() == 0 || Clock::now() - created_ < timeout_) return;
  const std::string waiting =
      step_ == Step::kCards
          ? "rank " + std::to_string(world_ranks_[static_cast<std::size_t>(std::min(gather_.waiting_for(), size_ - 1))])
      : step_ == Step::kVerdicts
          ? "rank " +
                std::to_string(world_ranks_[static_cast<std::size_t>(std::min(verdicts_.waiting_for(), size_ - 1))])
          : "NCCL to connect the ranks (NCCL_DEBUG=INFO prints how it tries to)";
  throw sdk::Failure(RODA_ERR_TIMEOUT, "nccl: " + label() + " did not form in time, still waiting for " + waiting);
}

}  // namespace roda::nccl

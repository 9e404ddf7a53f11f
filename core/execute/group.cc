#include "core/execute/group.h"

#include <utility>

#include "algorithms/plan/slices.h"
#include "plugins/base/invariant.h"

namespace roda::execute {
namespace {

// More slots than any plan keeps in flight would only cost memory for their bookkeeping.
constexpr std::uint32_t kMaxSlots = 16;

}  // namespace

Status TransportContext::create(const roda_transport* transport, const roda_host* host,
                                std::unique_ptr<TransportContext>* out) {
  roda_context* context = nullptr;
  roda_error error = make_error();
  RODA_RETURN_IF_ERROR(Status::from(transport->context_create(host, &context, &error), error));
  out->reset(new TransportContext(transport, host, context));
  return {};
}

TransportContext::TransportContext(const roda_transport* transport, const roda_host* host, roda_context* context)
    : transport_(transport), host_(host), context_(context), capabilities_(transport->context_capabilities(context)) {}

TransportContext::~TransportContext() { transport_->context_destroy(context_); }

int TransportContext::settle() {
  if (is_settled_) return 0;
  is_settled_ = transport_->settle(context_) != RODA_AGAIN;
  return is_settled_ ? 0 : transport_->progress(context_);
}

std::uint32_t needs_met(std::uint64_t capabilities) {
  std::uint32_t needs = 0;
  if ((capabilities & RODA_CAP_P2P) != 0) needs |= schedule::kNeedsMessages;
  if ((capabilities & RODA_CAP_SIGNAL) != 0) needs |= schedule::kNeedsSignals;
  if ((capabilities & RODA_CAP_GET) != 0) needs |= schedule::kNeedsGet;
  if ((capabilities & RODA_CAP_PUT) != 0) needs |= schedule::kNeedsPut;
  return needs;
}

bool TransportContext::supports(int collective, int dtype, int op, int memory_kind) const {
  return has(RODA_CAP_NATIVE) && transport_->collective_supported(context_, collective, dtype, op, memory_kind) != 0;
}

bool TransportContext::takes(int memory_kind, int device) const {
  const std::uint32_t host = 1u << RODA_MEMORY_HOST;
  const std::uint32_t kinds = transport_->memory_kinds == nullptr ? host : transport_->memory_kinds(context_, device);
  return (kinds & 1u << memory_kind) != 0;
}

Status TransportGroup::create(TransportContext& context, GroupOptions options, std::unique_ptr<TransportGroup>* out) {
  std::unique_ptr<TransportGroup> group(new TransportGroup(context, std::move(options)));
  const GroupOptions& kept = group->options_;
  roda_group_desc desc{};
  desc.struct_size = sizeof desc;
  desc.rank = kept.rank;
  desc.size = group->size();
  desc.world_ranks = kept.world_ranks.data();
  desc.name = kept.name.c_str();
  desc.generation = kept.generation;
  desc.timeout_ns = kept.timeout_ns;
  desc.exchange = kept.exchange;
  desc.has_device = kept.device >= 0 ? 1 : 0;
  desc.device = kept.device;
  desc.address = kept.address.empty() ? nullptr : kept.address.c_str();
  const int code = group->table_->group_create(context.get(), &desc, &group->group_, &group->error_);
  RODA_RETURN_IF_ERROR(group->error(code));
  *out = std::move(group);
  return {};
}

TransportGroup::TransportGroup(TransportContext& context, GroupOptions options)
    : context_(context), table_(&context.transport()), options_(std::move(options)) {}

TransportGroup::~TransportGroup() {
  if (group_ == nullptr) return;
  if (!ready_) abort(Status::aborted("the group " + options_.name + " was given up while it was forming"));
  for (Block& block : blocks_) {
    if (block.memory.address != nullptr) free(&block.memory);
  }
  for (LentMemory* memory : lent_) {
    if (memory->is_last()) end(memory);
  }
  table_->group_destroy(group_);
}

Status TransportGroup::test(bool* ready) {
  *ready = ready_;
  if (ready_) return {};
  const int code = table_->group_test(group_, &error_);
  if (code == RODA_IN_PROGRESS) return {};
  RODA_RETURN_IF_ERROR(error(code));
  ready_ = *ready = true;
  count_slots();
  return {};
}

Status TransportGroup::health() {
  if (aborted()) return cause();
  return error(table_->group_test(group_, &error_));
}

void TransportGroup::count_slots() {
  if (!context_.has(RODA_CAP_SIGNAL) || !(context_.has(RODA_CAP_GET) || context_.has(RODA_CAP_PUT))) return;
  const std::uint32_t by_signals = table_->signal_count(group_) / (schedule::kMaxSignals + 1);
  const std::uint32_t by_windows = table_->window_count(group_) / 2;
  const std::uint32_t blocks = std::min(by_signals, by_windows);
  blocks_per_slot_ = std::min(blocks, plan::kBlocksPerSlot);
  if (blocks_per_slot_ == 0) return;
  slots_ = std::min(blocks / blocks_per_slot_, kMaxSlots);
  blocks_.resize(std::size_t{slots_} * blocks_per_slot_);
  rotation_.resize(slots_);
}

void TransportGroup::abort(const Status& cause) {
  RODA_INVARIANT(!cause.ok(), "a group that is aborted has a cause");
  {
    const MutexLock lock(cause_mutex_);
    if (cause_.ok()) cause_ = cause;
  }
  aborted_.store(true, std::memory_order_release);
  roda_error text = make_error();
  cause.to(&text);
  table_->group_abort(group_, &text);
}

Status TransportGroup::cause() const {
  const MutexLock lock(cause_mutex_);
  return cause_;
}

bool TransportGroup::quiesced(const void* base, std::size_t bytes) {
  return base == nullptr || bytes == 0 || table_->quiesced(group_, base, bytes) != 0;
}

Status TransportGroup::register_memory(roda_memory* memory) {
  if (!context_.has(RODA_CAP_REGISTER) || !context_.takes(memory->kind, memory->device)) {
    return Status::unsupported(std::string(context_.name()) + " registers no such memory");
  }
  return error(table_->memory_register(group_, memory, &error_));
}

Status TransportGroup::allocate(std::size_t bytes, roda_memory* memory) {
  if (!context_.has(RODA_CAP_ALLOCATE)) {
    return Status::unsupported(std::string(context_.name()) + " hands out no memory");
  }
  memory->struct_size = sizeof *memory;
  return error(table_->memory_alloc(group_, bytes, memory, &error_));
}

void TransportGroup::free(roda_memory* memory) {
  table_->memory_free(group_, memory);
  *memory = roda_memory{};
}

Status TransportGroup::lend(std::size_t bytes, LentMemory** memory) {
  if (!context_.has(RODA_CAP_MAP) || !context_.has(RODA_CAP_MEMORY_STAYS)) {
    return Status::unsupported(std::string(context_.name()) + " lends no memory");
  }
  std::erase_if(lent_, [this](LentMemory* lent) {
    const bool is_back = lent->was_given_back();
    if (is_back) end(lent);
    return is_back;
  });
  roda_memory made{};
  RODA_RETURN_IF_ERROR(allocate(std::max<std::size_t>(bytes, 1), &made));
  *memory = lent_.emplace_back(new LentMemory(made));
  return {};
}

void TransportGroup::end(LentMemory* memory) {
  free(&memory->memory_);
  delete memory;
}

std::uint32_t TransportGroup::next_block(std::uint32_t slot) {
  RODA_INVARIANT(slot < slots_, "a launch has one of the slots that its group has");
  const std::uint64_t turn = rotation_[slot]++;
  return slot * blocks_per_slot_ + static_cast<std::uint32_t>(turn % blocks_per_slot_);
}

Status TransportGroup::open_window(std::uint32_t index, int which, void* base, std::size_t bytes,
                                   const roda_memory* memory) {
  RODA_INVARIANT(index < blocks_.size() && which >= 0 && which < 2, "a block of the group has two windows");
  Block& block = blocks_[index];
  if (block.window_base[which] == base && block.window_bytes[which] == bytes) return {};
  const std::uint32_t window = window_index(index, which);
  block.window_base[which] = nullptr;
  RODA_RETURN_IF_ERROR(error(table_->window_open(group_, window, base, bytes, memory, &error_)));
  block.window_base[which] = base;
  block.window_bytes[which] = bytes;
  return {};
}

Status TransportGroup::staging(std::uint32_t index, std::size_t bytes, roda_memory** memory) {
  RODA_INVARIANT(index < blocks_.size(), "a block that is staged is one of the group's");
  Block& block = blocks_[index];
  *memory = &block.memory;
  if (block.memory.length >= bytes && block.memory.address != nullptr) return {};
  if (block.memory.address != nullptr) {
    for (int which = 0; which < 2; ++which) {
      if (block.window_base[which] != nullptr) table_->window_close(group_, window_index(index, which));
      block.window_base[which] = nullptr;
    }
    free(&block.memory);
  }
  return allocate(bytes, &block.memory);
}

}  // namespace roda::execute

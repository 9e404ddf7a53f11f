#include "core/execute/memory.h"

#include <sys/mman.h>

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <string>

#include "core/execute/group.h"
#include "plugins/base/invariant.h"

namespace roda::execute {
namespace {

// Buffers on devices are of few sizes, so that launches of many sizes are served by few allocations.
constexpr std::size_t kLeastOnDevice = std::size_t{64} << 10;

void note_unregistered(TransportGroup& group, std::size_t bytes, const Status& why) {
  const roda_host& host = group.context().host();
  if (host.log == nullptr) return;
  const std::string text = std::to_string(bytes) + " bytes are used by group " + group.name() + " over " +
                           group.context().name() + " without being registered: " + why.message();
  host.log(host.self, RODA_LOG_DEBUG, "execute", text.c_str());
}

}  // namespace

void prefer_large_pages(void* memory, std::size_t bytes) {
  constexpr std::size_t kWorthIt = std::size_t{4} << 20, kLargePage = std::size_t{2} << 20;
  if (memory == nullptr || bytes < kWorthIt) return;
  const auto address = reinterpret_cast<std::uintptr_t>(memory);
  const std::size_t before = (kLargePage - address % kLargePage) % kLargePage;
  const std::size_t whole = (bytes - before) / kLargePage * kLargePage;
  static_cast<void>(::madvise(static_cast<char*>(memory) + before, whole, MADV_HUGEPAGE));
}

DeviceMemory::Block::~Block() {
  for (Registration& entry : registrations) {
    if (entry.is_registered) entry.group->deregister_memory(&entry.memory);
  }
  if (lender != nullptr) {
    lender->free(&memory);
  } else if (device != nullptr) {
    device->free(&memory);
  }
}

// An error of the device's: it works no more.
bool DeviceMemory::Block::is_used() const {
  bool is_over = true;
  if (used_until != nullptr) static_cast<void>(used_until->test(&is_over));
  return !is_over;
}

bool DeviceMemory::Block::can_go() const {
  return lender == nullptr && !is_used() && std::ranges::all_of(registrations, [](const Registration& entry) {
           return !entry.is_registered || entry.group->quiesced(entry.memory.address, entry.memory.length);
         });
}

Status DeviceMemory::reserve(const DeviceQueue& queue, Kind kind, std::size_t bytes, TransportGroup* lender) {
  std::erase_if(outgrown_, [](const auto& old) { return old->can_go(); });
  const bool is_there = block_ != nullptr && block_->device == queue.device && block_->memory.device == queue.number;
  if (is_there && block_->memory.length >= bytes) return {};
  if (block_ != nullptr && !block_->can_go()) outgrown_.push_back(std::move(block_));
  block_.reset();
  const Status status = allocate(queue, kind, bytes, lender);
  if (status.ok() || outgrown_.empty()) return status;
  std::erase_if(outgrown_, [](const auto& old) { return old->lender == nullptr && !old->is_used(); });
  return allocate(queue, kind, bytes, lender);
}

Status DeviceMemory::allocate(const DeviceQueue& queue, Kind kind, std::size_t bytes, TransportGroup* lender) {
  auto made = std::make_unique<Block>();
  made->memory.struct_size = sizeof made->memory;
  if (lender != nullptr) {
    const Status lent = lender->allocate(bytes, &made->memory);
    if (lent.ok()) {
      made->device = queue.device;
      made->lender = lender;
      block_ = std::move(made);
    }
    if (lent.code() != RODA_ERR_UNSUPPORTED) return lent;
  }
  const auto take = kind == Kind::kStaging ? queue.device->alloc_staging : queue.device->alloc;
  RODA_RETURN_IF_ERROR(invoke(take, queue.number, bytes, &made->memory));
  made->device = queue.device;
  block_ = std::move(made);
  return {};
}

void DeviceMemory::register_with(TransportGroup& group) {
  RODA_INVARIANT(block_ != nullptr, "memory is there before it is registered");
  std::vector<Registration>& all = block_->registrations;
  if (block_->lender == &group || std::ranges::any_of(all, [&](const Registration& r) { return r.group == &group; }))
    return;
  Registration entry{&group, block_->memory, false};
  const Status status = group.register_memory(&entry.memory);
  entry.is_registered = status.ok();
  if (!status.ok()) note_unregistered(group, entry.memory.length, status);
  all.push_back(entry);
}

void DeviceMemory::forget(TransportGroup& group) {
  const auto forget_in = [&](Block& block) {
    const auto is_it = [&](const Registration& entry) { return entry.group == &group; };
    const auto entry = std::ranges::find_if(block.registrations, is_it);
    if (entry == block.registrations.end()) return;
    if (entry->is_registered) group.deregister_memory(&entry->memory);
    block.registrations.erase(entry);
  };
  const auto is_lent = [&](const std::unique_ptr<Block>& block) { return block != nullptr && block->lender == &group; };
  std::erase_if(outgrown_, is_lent);
  if (is_lent(block_)) block_.reset();
  if (block_ != nullptr) forget_in(*block_);
  for (const auto& old : outgrown_) forget_in(*old);
}

WorkMemory::Host::~Host() {
  if (lender != nullptr) {
    lender->free(&memory);
  } else {
    std::free(memory.address);
  }
}

Status WorkMemory::allocate(std::size_t bytes, TransportGroup* lender, Host* host) {
  Host made;
  if (lender != nullptr) {
    RODA_RETURN_IF_ERROR(lender->allocate(bytes, &made.memory));
    made.lender = lender;
  } else {
    made.memory.address = std::aligned_alloc(kLine, align_up(bytes));
    if (made.memory.address == nullptr) {
      return Status::no_memory("there is not so much host memory: " + std::to_string(bytes) + " bytes");
    }
    made.memory.length = align_up(bytes);
  }
  *host = std::move(made);
  return {};
}

void WorkMemory::forget(TransportGroup& group) {
  on_device_.forget(group);
  if (host_.lender != &group) return;
  host_ = Host();
  if (!is_on_device_) data_ = nullptr;
}

Status WorkMemory::grow(const DeviceQueue* queue, std::size_t bytes, TransportGroup* lender) {
  is_on_device_ = queue != nullptr;
  if (is_on_device_) {
    const std::size_t length = std::bit_ceil(std::max(bytes, kLeastOnDevice));
    const Status status = on_device_.reserve(*queue, DeviceMemory::Kind::kDevice, length, lender);
    data_ = on_device_.data();
    return status;
  }
  Status status;
  if (bytes > host_.memory.length || lender != asked_) {
    host_ = Host();
    asked_ = lender;
    if (lender != nullptr && !lender->context().has(RODA_CAP_ALLOCATE)) lender = nullptr;
    status = allocate(bytes, lender, &host_);
    // Memory of our own serves, too: peers reach it by one copy more.
    if (lender != nullptr && status.code() == RODA_ERR_NO_MEMORY) status = allocate(bytes, nullptr, &host_);
  }
  data_ = static_cast<char*>(host_.memory.address);
  return status;
}

}  // namespace roda::execute

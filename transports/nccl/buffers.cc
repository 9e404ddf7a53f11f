// Buffers that callers have registered with the group's communicator.
//
// NCCL wants the buffers of one collective to be registered on every rank or on none. So the members agree, while the
// group forms, on whether they register at all: each tries it once. From then on a rank that can't register what it is
// told to must not go on, and ends the group.
#include <algorithm>
#include <thread>

#include "transports/nccl/explain.h"
#include "transports/nccl/group.h"

namespace roda::nccl {
namespace {

constexpr std::size_t kTrialBytes = std::size_t{64} << 10;
constexpr std::chrono::microseconds kPause{100};

}  // namespace

void Group::memory_register(roda_memory* memory) {
  state_.throw_if_broken();
  if (!registers_) throw sdk::Failure(RODA_ERR_UNSUPPORTED, "nccl: " + state_.label() + " registers no buffers");
  if (memory->kind != RODA_MEMORY_CUDA || memory->device != gpu_->device()) {
    throw sdk::Failure(RODA_ERR_INVALID,
                       "nccl: only memory of " + gpu_->label() + " is registered with " + state_.label());
  }
  buffers_.push_back(std::make_unique<Registered>(Registered{memory->address, memory->length, nullptr, false}));
}

// NCCL knows nothing of the buffer when this returns, or the communicator is gone. A call of NCCL's that is under way
// is waited for; callers that must not wait ask quiesced() before.
void Group::memory_deregister(roda_memory* memory) {
  const auto is_it = [&](const auto& known) { return known->address == memory->address; };
  const auto found = std::find_if(buffers_.begin(), buffers_.end(), is_it);
  if (found == buffers_.end()) return;
  const std::unique_ptr<Registered> buffer = std::move(*found);
  buffers_.erase(found);
  if (!buffer->is_done) return;
  try {
    if (wait_for_calls()) deregister(*buffer);
  } catch (const sdk::Failure& failure) {
    break_with(failure);
  }
  const auto deadline = Clock::now() + context_.patience();
  while (state_.is_broken() && !communicator_->is_gone() && Clock::now() < deadline)
    std::this_thread::sleep_for(kPause);
}

void Group::deregister(const Registered& buffer) {
  communicator_->call("ncclCommDeregister of " + state_.label(),
                      [&](Comm comm) { return context_.library()->CommDeregister(comm, buffer.handle); });
}

// Whether memory_deregister() would find nothing to wait for.
bool Group::can_deregister() {
  if (state_.is_broken()) return communicator_ == nullptr || communicator_->is_gone();
  try {
    return communicator_->poll();
  } catch (const sdk::Failure& failure) {
    break_with(failure);
    return false;
  }
}

// False when the group has failed.
bool Group::wait_for_calls() {
  const auto deadline = Clock::now() + context_.patience();
  while (!state_.is_broken()) {
    if (communicator_->poll()) return true;
    if (Clock::now() > deadline)
      throw sdk::Failure(RODA_ERR_TIMEOUT, "nccl: a call of " + state_.label() + " does not end");
    std::this_thread::sleep_for(kPause);
  }
  return false;
}

// What is due comes before the next collective: NCCL takes one call at a time. True when all is done.
bool Group::register_buffers() {
  for (const auto& buffer : buffers_) {
    if (buffer->is_done) continue;
    const std::string what = "registering " + std::to_string(buffer->bytes) + " bytes with " + state_.label();
    communicator_->call(what, [&](Comm comm) {
      return context_.library()->CommRegister(comm, buffer->address, buffer->bytes, &buffer->handle);
    });
    buffer->is_done = true;
    if (!communicator_->poll()) return false;
  }
  return true;
}

// Once, on memory of its own, while the group forms.
bool Group::try_registering() {
  const cuda::Driver& driver = gpu_->driver();
  const cuda::ContextScope scope(driver, gpu_->context());
  cuda::Address address{};
  if (driver.MemAlloc(&address, kTrialBytes) != cuda::kSuccess) return false;
  bool works = false;
  try {
    buffers_.push_back(
        std::make_unique<Registered>(Registered{reinterpret_cast<void*>(address), kTrialBytes, nullptr, false}));
    works = (register_buffers() || wait_for_calls());
    if (works) deregister(*buffers_.back());
    works = works && wait_for_calls();
  } catch (const sdk::Failure& failure) {
    context_.log(RODA_LOG_DEBUG, failure.what());
  }
  buffers_.clear();
  driver.MemFree(address);
  return works;
}

}  // namespace roda::nccl

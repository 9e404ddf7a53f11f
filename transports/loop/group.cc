#include "transports/loop/group.h"

#include <memory>

namespace roda::loop {

Group::Group(Context& context, const roda_group_desc& desc)
    : context_(context),
      hub_(Hub::find(desc)),
      rank_(desc.rank),
      timeout_(std::chrono::nanoseconds(desc.timeout_ns)),
      created_(Clock::now()) {
  hub_->join(rank_, &context_);
  context_.add(hub_.get(), rank_);
}

Group::~Group() {
  hub_->leave(rank_);
  context_.remove(hub_.get());
}

bool Group::test() {
  hub_->throw_if_aborted(rank_);
  if (hub_->complete()) return true;
  if (timeout_ > Clock::duration::zero() && Clock::now() - created_ > timeout_) {
    throw sdk::Failure(RODA_ERR_TIMEOUT, "these ranks did not join the group in time: " + hub_->missing());
  }
  return false;
}

int32_t Group::send(int peer, std::uint64_t tag, const void* data, std::size_t bytes, const roda_memory*,
                    Request** request) {
  if (context_.count_operation()) return RODA_AGAIN;
  *request = hub_->send(rank_, peer, tag, data, bytes, context_.delay());
  return RODA_OK;
}

int32_t Group::receive(int peer, std::uint64_t tag, void* data, std::size_t bytes, const roda_memory*,
                       Request** request) {
  if (context_.count_operation()) return RODA_AGAIN;
  *request = hub_->receive(rank_, peer, tag, data, bytes);
  return RODA_OK;
}

int32_t Group::get(int peer, std::uint32_t slot, std::size_t offset, void* destination, std::size_t bytes, Request**) {
  if (context_.count_operation()) return RODA_AGAIN;
  hub_->get(rank_, peer, slot, offset, destination, bytes);
  return RODA_OK;
}

int32_t Group::put(int peer, std::uint32_t slot, std::size_t offset, const void* source, std::size_t bytes, Request**) {
  if (context_.count_operation()) return RODA_AGAIN;
  hub_->put(rank_, peer, slot, offset, source, bytes);
  return RODA_OK;
}

void Group::memory_alloc(std::size_t bytes, roda_memory* memory) {
  hub_->throw_if_aborted(rank_);
  void* address = hub_->allocate(bytes);
  *memory = {sizeof *memory, RODA_MEMORY_HOST, -1, 0, address, bytes, address};
}

}  // namespace roda::loop

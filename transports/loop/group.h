// One rank's membership in a loop group.
#pragma once

#include "transports/loop/hub.h"

namespace roda::loop {

// The entries of the ABI; errors are thrown. abort() from any thread, the others from the rank's own.
class Group {
 public:
  using Request = Operation;

  Group(Context& context, const roda_group_desc& desc)
      : context_(context),
        hub_(Hub::find(desc)),
        rank_(desc.rank),
        timeout_(std::chrono::nanoseconds(desc.timeout_ns)),
        created_(Clock::now()) {
    hub_->join(rank_, &context_);
    context_.add(hub_.get(), rank_);
  }
  ~Group() {
    hub_->leave(rank_);
    context_.remove(hub_.get());
  }
  Group(const Group&) = delete;
  Group& operator=(const Group&) = delete;

  bool test() {
    hub_->throw_if_aborted(rank_);
    if (hub_->complete()) return true;
    if (timeout_ > Clock::duration::zero() && Clock::now() - created_ > timeout_) {
      throw sdk::Failure(RODA_ERR_TIMEOUT, "these ranks did not join the group in time: " + hub_->missing());
    }
    return false;
  }
  void abort(const sdk::Failure& cause) { hub_->abort(rank_, cause); }

  int32_t send(int peer, std::uint64_t tag, const void* data, std::size_t bytes, const roda_memory*,
               Request** request) {
    if (context_.count_operation()) return RODA_AGAIN;
    *request = hub_->send(rank_, peer, tag, data, bytes, context_.delay());
    return RODA_OK;
  }
  int32_t receive(int peer, std::uint64_t tag, void* data, std::size_t bytes, const roda_memory*, Request** request) {
    if (context_.count_operation()) return RODA_AGAIN;
    *request = hub_->receive(rank_, peer, tag, data, bytes);
    return RODA_OK;
  }
  int32_t get(int peer, std::uint32_t slot, std::size_t offset, void* destination, std::size_t bytes, Request**) {
    if (context_.count_operation()) return RODA_AGAIN;
    hub_->get(rank_, peer, slot, offset, destination, bytes);
    return RODA_OK;
  }
  int32_t put(int peer, std::uint32_t slot, std::size_t offset, const void* source, std::size_t bytes, Request**) {
    if (context_.count_operation()) return RODA_AGAIN;
    hub_->put(rank_, peer, slot, offset, source, bytes);
    return RODA_OK;
  }
  int32_t test(Request* request) { return hub_->test(rank_, request, timeout_); }

  std::uint32_t signal_count() const { return kSignals; }
  void signal(int peer, std::uint32_t index, std::uint64_t value) { hub_->signal(rank_, peer, index, value); }
  std::uint64_t signal_value(int peer, std::uint32_t index) const { return hub_->signal_value(rank_, peer, index); }

  std::uint32_t window_count() const { return kWindows; }
  void window_open(std::uint32_t slot, void* base, std::size_t bytes, const roda_memory*) {
    hub_->open_window(rank_, slot, base, bytes);
  }
  void window_close(std::uint32_t slot) { hub_->close_window(rank_, slot); }
  void* window_map(int peer, std::uint32_t slot) const { return hub_->map_window(peer, slot); }

  void memory_alloc(std::size_t bytes, roda_memory* memory) {
    hub_->throw_if_aborted(rank_);
    void* address = hub_->allocate(bytes);
    *memory = {sizeof *memory, RODA_MEMORY_HOST, -1, 0, address, bytes, address};
  }
  void memory_free(roda_memory* memory) { hub_->release(memory->owner); }
  bool is_quiet(const void* base, std::size_t bytes) const { return hub_->quiesced(rank_, base, bytes); }

 private:
  Context& context_;
  const std::shared_ptr<Hub> hub_;
  const int rank_;
  const Clock::duration timeout_;
  const Clock::time_point created_;
};

}  // namespace roda::loop

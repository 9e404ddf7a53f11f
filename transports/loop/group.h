// One rank's membership in a loop group.
#pragma once

#include <roda/abi/transport.h>

#include <memory>

#include "transports/loop/context.h"
#include "transports/loop/hub.h"

namespace roda::loop {

// The entries of the ABI; errors are thrown. abort() from any thread, the others from the rank's own.
class Group {
 public:
  using Request = Operation;

  Group(Context& context, const roda_group_desc& desc);
  ~Group();
  Group(const Group&) = delete;
  Group& operator=(const Group&) = delete;

  bool test();
  void abort(const sdk::Failure& cause) { hub_->abort(rank_, cause); }

  int32_t send(int peer, std::uint64_t tag, const void* data, std::size_t bytes, const roda_memory*, Request** request);
  int32_t receive(int peer, std::uint64_t tag, void* data, std::size_t bytes, const roda_memory*, Request** request);
  int32_t get(int peer, std::uint32_t slot, std::size_t offset, void* destination, std::size_t bytes, Request**);
  int32_t put(int peer, std::uint32_t slot, std::size_t offset, const void* source, std::size_t bytes, Request**);
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

  void memory_alloc(std::size_t bytes, roda_memory* memory);
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

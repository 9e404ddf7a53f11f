// One group over MPI: a communicator of its own, messages and collectives on it, and the end of all that.
#pragma once

#include <roda/abi/transport.h>

#include <memory>
#include <roda/sdk/group_state.hpp>
#include <vector>

#include "transports/mpi/channel.h"
#include "transports/mpi/context.h"
#include "transports/mpi/forming.h"

namespace roda::mpi::RODA_MPI_FLAVOUR {

// Entries may throw sdk::Failure. abort() from any thread, the others from the context's caller.
//
// MPI can't take back what was started. An abort therefore ends operations for their callers, forgets receives whose
// message has not come, and leaves the rest to the context; the communicator is never freed then, because a late
// message for it would be taken for one of the next communicator that gets its number.
class Group {
 public:
  using Request = Operation;

  Group(Context& context, const roda_group_desc& desc);
  ~Group();
  Group(const Group&) = delete;
  Group& operator=(const Group&) = delete;

  // True when formed.
  bool test();
  void abort(const sdk::Failure& cause) { state_.abort(cause); }
  // Takes in messages; with a Turn.
  int poll();

  // RODA_OK, with *request null when it is done already, or RODA_AGAIN.
  int32_t send(int peer, std::uint64_t tag, const void* data, std::size_t bytes, const roda_memory*, Request** request);
  int32_t receive(int peer, std::uint64_t tag, void* data, std::size_t bytes, const roda_memory*, Request** request);
  int32_t start(const roda_collective_args& args, Request** request);
  // RODA_IN_PROGRESS or RODA_OK; either end releases it, the throwing one too.
  int32_t test(Request* request);
  bool is_quiet(const void* base, std::size_t bytes) const;

 private:
  int32_t start_message(Operation::Kind kind, int peer, std::uint64_t tag, const void* data, std::size_t bytes,
                        Request** request);
  void hand_out(Request* operation);
  void take_back(Request* operation);
  // Ends `operation` for its caller; MPI may go on with it.
  void drop(Request* operation);
  [[noreturn]] void time_out(Request* operation);

  Context* const context_;
  sdk::GroupState state_;
  std::unique_ptr<Forming> forming_;  // null for a group of one
  std::unique_ptr<Channel> channel_;  // once formed
  std::vector<Request*> live_;        // handed out
};

}  // namespace roda::mpi::RODA_MPI_FLAVOUR

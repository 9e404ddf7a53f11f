// One use of MPI by this process: the requests under way, and the groups whose messages are taken in.
#pragma once

#include <memory>

#include "transports/mpi/collectives.h"
#include "transports/mpi/queue.h"
#include "transports/mpi/runtime.h"

namespace roda::mpi::RODA_MPI_FLAVOUR {

class Group;

// One thread at a time.
class Context {
 public:
  explicit Context(const roda_host* host);
  ~Context();

  // Throws sdk::Failure with the reason when MPI can't be used here. Starts nothing.
  static void probe(const roda_host* host);

  const roda_host* host() const { return host_; }
  Runtime& runtime() const { return Runtime::get(); }
  Queue& queue() { return *queue_; }
  Pump& pump() { return pump_; }
  void join(Group* group) { groups_.push_back(group); }
  void leave(Group* group) { std::erase(groups_, group); }

  // The entries of the ABI.
  int progress();
  int event_fd() const { return -1; }
  bool arm() const { return true; }
  static bool collective_supported(int collective, int dtype, int op, int memory_kind) {
    return memory_kind == RODA_MEMORY_HOST && sdk::is_plain(collective, dtype, op);
  }

 private:
  const roda_host* const host_;
  std::unique_ptr<Queue> queue_;
  Pump pump_{Runtime::get()};
  std::vector<Group*> groups_;  // formed ones
};

}  // namespace roda::mpi::RODA_MPI_FLAVOUR

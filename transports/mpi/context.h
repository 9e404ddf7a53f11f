// One use of MPI by this process: the requests under way, and the groups whose messages are taken in.
#pragma once

#include <roda/sdk/group_state.hpp>

#include <memory>

#include "transports/mpi/collectives.h"
#include "transports/mpi/queue.h"
#include "transports/mpi/runtime.h"

namespace roda::mpi::RODA_MPI_FLAVOUR {

class Group;

// One thread at a time.
class Context : public sdk::GroupList<Group> {  // of formed ones
 public:
  explicit Context(const roda_host* host) : host_(host), queue_(std::make_unique<Queue>(Runtime::get())) {
    largest_count() = sdk::read_settings(kSettings, host).largest_count;
  }
  ~Context() {
    if (queue_->is_empty()) return;
    // What an abort left behind: MPI may still touch this memory, so it stays for the life of the process.
    static auto* remains = new std::vector<std::unique_ptr<Queue>>;
    remains->push_back(std::move(queue_));
  }

  // Throws sdk::Failure with the reason when this machine has no MPI. Starts nothing.
  static void probe(const roda_host*) { Runtime::get().library(); }
  // The same of a job that no MPI connects.
  static void suits(const roda_host*, int) {
    const std::string reason = why_no_common_world(find_launch(kFlavour, std::getenv), std::getenv);
    if (!reason.empty()) throw sdk::Failure(RODA_ERR_PRECONDITION, reason);
  }

  const roda_host* host() const { return host_; }
  Runtime& runtime() const { return Runtime::get(); }
  Queue& queue() { return *queue_; }
  Pump& pump() { return *pump_; }

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
  std::unique_ptr<Pump, Pump::End> pump_{new Pump(Runtime::get())};
};

}  // namespace roda::mpi::RODA_MPI_FLAVOUR

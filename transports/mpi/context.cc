#include "transports/mpi/context.h"

#include <cstdlib>

#include "transports/mpi/group.h"
#include "transports/mpi/pieces.h"
#include "transports/mpi/settings.h"

namespace roda::mpi::RODA_MPI_FLAVOUR {

void Context::probe(const roda_host*) {
  const Getter variable = [](const char* name) { return std::getenv(name); };
  Runtime::get().library();
  const std::string reason = why_no_common_world(find_launch(kFlavour, variable), variable);
  if (!reason.empty()) throw sdk::Failure(RODA_ERR_UNAVAILABLE, reason);
}

Context::Context(const roda_host* host) : host_(host), queue_(std::make_unique<Queue>(Runtime::get())) {
  largest_count() = sdk::read_settings(kSettings, host).largest_count;
}

Context::~Context() {
  if (queue_->is_empty()) return;
  // What an abort left behind: MPI may still touch this memory, so it stays for the life of the process.
  static auto* remains = new std::vector<std::unique_ptr<Queue>>;
  remains->push_back(std::move(queue_));
}

int Context::progress() {
  if (groups_.empty() && queue_->is_empty()) return 0;
  const Runtime::Turn turn(runtime());
  if (!turn) return 0;
  try {
    int events = 0;
    for (Group* group : groups_) events += group->poll();
    events += queue_->poll();
    // With nothing awaited and nothing in flight that was no call of MPI, and here no thread makes one either.
    if (events == 0 && !runtime().may_call_at_any_time()) pump_.push();
    return events;
  } catch (const sdk::Failure& failure) {
    for (Group* group : groups_) group->abort(failure);
    return 1;
  }
}

}  // namespace roda::mpi::RODA_MPI_FLAVOUR

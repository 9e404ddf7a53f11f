#include "transports/mpi/context.h"

#include <roda/sdk/transport.hpp>

#include "transports/mpi/datatypes.h"
#include "transports/mpi/group.h"
#include "transports/mpi/mpi.h"

namespace roda::mpi::RODA_MPI_FLAVOUR {
namespace {

#define RODA_MPI_TEXT_OF(value) #value
#define RODA_MPI_TEXT(value) RODA_MPI_TEXT_OF(value)
#ifdef OPEN_MPI
constexpr const char* kDescription =
    "Open MPI, opened at run time; built for " RODA_MPI_TEXT(OMPI_MAJOR_VERSION) "." RODA_MPI_TEXT(OMPI_MINOR_VERSION);
#elif defined(MPICH_VERSION)
constexpr const char* kDescription = "MPICH and its kin, opened at run time; built for " MPICH_VERSION;
#else
constexpr const char* kDescription = "An MPI of the standard's binary interface, opened at run time";
#endif

// Not RODA_CAP_FAULT_TOLERANT: what was started can't be taken back.
constexpr roda_transport kTransport =
    sdk::transport<Context, Group, RODA_CAP_P2P | RODA_CAP_NATIVE>("mpi", kDescription, RODA_PROGRESS_POLL);

}  // namespace

int Context::progress() {
  if (groups_.empty() && queue_->is_empty()) return 0;
  const Runtime::Turn turn(runtime());
  if (!turn) return 0;
  try {
    int events = 0;
    for (Group* group : groups_) events += group->poll();
    events += queue_->poll();
    // With nothing awaited and nothing in flight that was no call of MPI, and here no thread makes one either.
    if (events == 0 && !runtime().may_call_at_any_time()) pump_->push();
    return events;
  } catch (const sdk::Failure& failure) {
    for (Group* group : groups_) group->abort(failure);
    return 1;
  }
}

const roda_transport* transport() { return &kTransport; }
bool is_loaded() { return Library::is_loaded(); }
bool is_there() {
  try {
    Runtime::get().library();
    return true;
  } catch (const sdk::Failure&) {
    return false;
  }
}

}  // namespace roda::mpi::RODA_MPI_FLAVOUR

#include <mpi.h>
#include <roda/sdk/transport.hpp>

#include "transports/mpi/context.h"
#include "transports/mpi/flavours.h"
#include "transports/mpi/group.h"

namespace roda::mpi::RODA_MPI_FLAVOUR {
namespace {

#define RODA_MPI_TEXT_OF(value) #value
#define RODA_MPI_TEXT(value) RODA_MPI_TEXT_OF(value)
#ifdef OPEN_MPI
constexpr const char* kDescription =
    "Open MPI, opened at run time; built for " RODA_MPI_TEXT(OMPI_MAJOR_VERSION) "." RODA_MPI_TEXT(OMPI_MINOR_VERSION);
#else
constexpr const char* kDescription = "MPICH and its kin, opened at run time; built for " MPICH_VERSION;
#endif

// Not RODA_CAP_FAULT_TOLERANT: what was started can't be taken back.
constexpr roda_transport kTransport =
    sdk::transport<Context, Group, RODA_CAP_P2P | RODA_CAP_NATIVE>("mpi", kDescription, RODA_PROGRESS_POLL);

}  // namespace

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

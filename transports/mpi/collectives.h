// MPI's non-blocking collectives.
#pragma once

#include <roda/sdk/collective.hpp>

#include "transports/mpi/queue.h"

namespace roda::mpi::RODA_MPI_FLAVOUR {

// Where a collective runs. MPI matches collectives by their order on the communicator.
struct Team {
  MPI_Comm communicator;
  int rank;
  int size;  // 2 or more
};

// Starts a collective that is sdk::is_plain, puts its MPI requests into the queue and its memory into `operation`. With
// a Turn. Throws sdk::Failure.
void start_collective(const Library& library, const roda_host* host, const Team& team, const roda_collective_args& args,
                      Queue* queue, Operation* operation);

}  // namespace roda::mpi::RODA_MPI_FLAVOUR

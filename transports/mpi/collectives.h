// MPI's non-blocking collectives.
#pragma once

#include "transports/mpi/queue.h"

namespace roda::mpi::RODA_MPI_FLAVOUR {

// Where a collective runs. MPI matches collectives by their order on the communicator.
struct Team {
  MPI_Comm communicator;
  int rank;
  int size;  // 2 or more
};

// allreduce, reduce-scatter, broadcast, allgather, alltoall with any counts, barrier; every dtype; sum, min, max,
// product.
bool is_supported(int collective, int dtype, int op);

// True when there is nothing to talk about: no elements anywhere, or a group of one, whose data are copied here and
// now.
bool is_trivial(const roda_collective_args& args, int size);

// Starts a supported collective, puts its MPI requests into the queue and its memory into `operation`. With a Turn.
// Throws sdk::Failure.
void start_collective(const Library& library, const roda_host* host, const Team& team, const roda_collective_args& args,
                      Queue* queue, Operation* operation);

}  // namespace roda::mpi::RODA_MPI_FLAVOUR

// Roda's dtypes and ops as MPI's.
#pragma once

#include <roda/abi/host.h>

#include "transports/mpi/library.h"

namespace roda::mpi::RODA_MPI_FLAVOUR {

// An MPI type of the dtype's width: its arithmetic type where MPI has one. 16-bit floats and bool travel as integers.
MPI_Datatype datatype_of(const Library& library, int dtype);

// Sum, min, max, product of every dtype.
bool is_reduction(int dtype, int op);

// The operation to use with datatype_of(dtype): MPI's own, or for 16-bit floats and bool one that runs the host's
// kernels, made at the first use and kept for the life of the process. One thread at a time, MPI started.
MPI_Op operation_of(const Library& library, const roda_host* host, int dtype, int op);

}  // namespace roda::mpi::RODA_MPI_FLAVOUR

// The flavours of MPI that this plugin was built for, and which of them serves this process.
#pragma once

#include <roda/abi/bootstrap.h>
#include <roda/abi/transport.h>

#define RODA_MPI_DECLARE(flavour)          \
  namespace roda::mpi::flavour {           \
  const roda_transport* transport();       \
  const roda_bootstrap* bootstrap();       \
  bool is_loaded(); /* by somebody else */ \
  bool is_there();  /* can be opened */    \
  }
RODA_MPI_DECLARE(openmpi)
RODA_MPI_DECLARE(mpich)
#undef RODA_MPI_DECLARE

// The same answer for the whole life of the process. Any thread.
const roda_transport* roda_mpi_transport();
const roda_bootstrap* roda_mpi_bootstrap();

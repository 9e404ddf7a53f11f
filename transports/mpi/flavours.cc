#include "transports/mpi/flavours.h"

#include <cstdlib>
#include <vector>

#include "transports/mpi/launch.h"

namespace roda::mpi {
namespace {

struct Built {
  Flavour flavour;
  const roda_transport* (*transport)();
  const roda_bootstrap* (*bootstrap)();
  bool (*is_loaded)();
  bool (*is_there)();
};

// In the order of preference where nothing speaks for one of them.
const std::vector<Built>& built() {
  static const std::vector<Built> flavours = {
#ifdef RODA_MPI_HAS_OPENMPI
      {Flavour::kOpenMpi, openmpi::transport, openmpi::bootstrap, openmpi::is_loaded, openmpi::is_there},
#endif
#ifdef RODA_MPI_HAS_MPICH
      {Flavour::kMpich, mpich::transport, mpich::bootstrap, mpich::is_loaded, mpich::is_there},
#endif
  };
  return flavours;
}

// A library that the program uses already must be ours too; else the one whose launcher started this process; else one
// that is installed.
const Built& choose() {
  for (const Built& each : built()) {
    if (each.is_loaded()) return each;
  }
  for (const Built& each : built()) {
    const bool is_launched = find_launch(each.flavour, [](const char* name) { return std::getenv(name); }).found;
    if (is_launched && each.is_there()) return each;
  }
  for (const Built& each : built()) {
    if (each.is_there()) return each;
  }
  return built().front();
}

const Built& chosen() {
  static const Built& choice = choose();
  return choice;
}

}  // namespace
}  // namespace roda::mpi

const roda_transport* roda_mpi_transport() { return roda::mpi::chosen().transport(); }
const roda_bootstrap* roda_mpi_bootstrap() { return roda::mpi::chosen().bootstrap(); }

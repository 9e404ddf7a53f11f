#include <roda/sdk/plugin.hpp>

#include "transports/mpi/mpi.h"

RODA_TRANSPORT_PLUGIN("mpi", roda_mpi_transport());
RODA_BOOTSTRAP_PLUGIN(roda_mpi_bootstrap());
RODA_PLUGIN_SETTINGS(roda::mpi::kSettings);

#include <roda/sdk/plugin.hpp>

#include "transports/mpi/flavours.h"

RODA_TRANSPORT_PLUGIN("mpi", roda_mpi_transport());
RODA_BOOTSTRAP_PLUGIN(roda_mpi_bootstrap());

#include <roda/sdk/plugin.hpp>

#include "transports/shm/shm.h"

RODA_TRANSPORT_PLUGIN("shm", roda_shm_transport());
RODA_PLUGIN_SETTINGS(roda::shm::kSettings);

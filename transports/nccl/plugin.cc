#include <roda/sdk/plugin.hpp>

#include "transports/nccl/nccl.h"

RODA_TRANSPORT_PLUGIN("nccl", roda_nccl_transport());
RODA_PLUGIN_SETTINGS(roda::nccl::kSettings);

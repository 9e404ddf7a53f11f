#include <roda/sdk/plugin.hpp>

#include "transports/ucx/ucx.h"

RODA_TRANSPORT_PLUGIN("ucx", roda_ucx_transport());

// UCX takes signals as it is loaded, and it carries nothing unasked: our own sockets come before it everywhere.
RODA_PLUGIN_ONLY_BY_NAME;

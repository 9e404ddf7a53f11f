#include <roda/sdk/plugin.hpp>

#include "transports/ucx/ucx.h"

RODA_TRANSPORT_PLUGIN("ucx", roda_ucx_transport());

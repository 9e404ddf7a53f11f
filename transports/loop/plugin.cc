#include <roda/sdk/plugin.hpp>

#include "transports/loop/loop.h"

RODA_TRANSPORT_PLUGIN("loop", roda_loop_transport());
RODA_PLUGIN_SETTINGS(roda::loop::kSettings);

#include <roda/sdk/plugin.hpp>

#include "transports/tcp/tcp.h"

RODA_TRANSPORT_PLUGIN("tcp", roda_tcp_transport());
RODA_PLUGIN_SETTINGS(roda::tcp_transport::kSettings);

#include <roda/sdk/plugin.hpp>

#include "transports/gloo/gloo.h"

RODA_TRANSPORT_PLUGIN("gloo", roda_gloo_transport());

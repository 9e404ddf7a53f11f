#include <roda/sdk/plugin.hpp>

#include "transports/verbs/verbs.h"

RODA_TRANSPORT_PLUGIN("verbs", roda_verbs_transport());
RODA_PLUGIN_SETTINGS(roda::verbs::kSettings);

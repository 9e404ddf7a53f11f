// Brings a device's table to this core's shape.
#pragma once

#include <roda/abi/device.h>

#include "plugins/base/status.h"

namespace roda::plugins {

// Copies what the plugin offers; entries that its struct is too short for are null. Refuses another ABI version, and
// tables that lack an entry that every device has.
Status adapt_device(const roda_device* offered, roda_device* table);

}  // namespace roda::plugins

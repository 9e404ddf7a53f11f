// Makes what a plugin's entries return safe to call: checks it, and fits a shorter (older) table to this core's size.
#pragma once

#include <roda/abi/bootstrap.h>
#include <roda/abi/device.h>
#include <roda/abi/transport.h>

#include <cstdint>

#include "plugins/base/status.h"

namespace roda::plugins {

// Copies `offered` into the full-size `*table`; entries that its struct_size leaves out are NULL, and RODA_CAP_* bits
// whose entries are absent through that are cleared. Refused, with the entry's name: a version other than this core's,
// a table too short to hold what every such table has, a required entry that is NULL, a capability announced without
// its entries.
Status adapt(const roda_transport* offered, roda_transport* table);
Status adapt(const roda_device* offered, roda_device* table);
Status adapt(const roda_bootstrap* offered, roda_bootstrap* table);

Status other_version(std::uint32_t theirs);

}  // namespace roda::plugins

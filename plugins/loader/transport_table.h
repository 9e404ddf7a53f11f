// Makes what a plugin's entry returned safe to call: checks it, and fits a shorter (older) table to this core's size.
#pragma once

#include <roda/abi/transport.h>

#include "plugins/base/status.h"

namespace roda::plugins {

// Copies `offered` into the full-size `*table`; entries that its struct_size leaves out are NULL, and RODA_CAP_* bits
// whose entries are absent through that are cleared. Refused, with the entry's name: a version other than this core's,
// a table too short to hold the group entries, a required entry that is NULL, a capability announced without its
// entries.
Status adapt_transport(const roda_transport* offered, roda_transport* table);

}  // namespace roda::plugins

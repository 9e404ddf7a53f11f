// The table of a plugin of algorithms, checked before use.
#pragma once

#include <roda/abi/algorithms.h>

#include "plugins/base/status.h"

namespace roda::plugins {

// An error that says what is wrong with the table, null included. Its algorithms are checked one by one, not called.
Status check_algorithms(const roda_algorithms* table);

}  // namespace roda::plugins

// HOROVOD_THREAD_AFFINITY: the core of each rank's engine thread.
#pragma once

#include <pthread.h>

#include <string_view>

#include "plugins/base/status.h"

namespace roda::engine {

// The core in `list` (numbers, separated by commas, one for each rank of the host at least) of the rank with this
// number on its host. An error names what is wrong with the list, on all ranks of the host alike.
Status core_of(std::string_view list, int local_rank, int local_size, int* core);

// The thread runs on that core alone from now on.
Status pin_to_core(pthread_t thread, int core);

}  // namespace roda::engine

// The sockets behind a UCX worker.
#pragma once

#include <vector>

namespace roda::ucx {

// Those that the event descriptor of a worker watches.
std::vector<int> sockets_of(int event_fd);

}  // namespace roda::ucx

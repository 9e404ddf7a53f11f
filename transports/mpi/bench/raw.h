// What the parts of mpi_raw share.
#pragma once

#include <mpi.h>

#include <chrono>
#include <cstddef>
#include <vector>

namespace roda::mpi_raw {

inline double now_ns() {
  return static_cast<double>(std::chrono::steady_clock::now().time_since_epoch() / std::chrono::nanoseconds(1));
}

inline void finish(MPI_Request* request) {
  for (int done = 0; done == 0;) MPI_Test(request, &done, MPI_STATUS_IGNORE);
}

// The non-blocking collectives that the transport uses where nothing stands against it, float32 sums, one at a time, of
// `bytes` in all. Collective; rank 0 prints as roda-transport-perf --test collectives does.
void measure_collectives(int rank, int ranks, std::size_t bytes);

}  // namespace roda::mpi_raw

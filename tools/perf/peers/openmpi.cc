// MPI_Allreduce, measured as roda-perf measures. Started by mpirun.
#include <mpi.h>

#include "tools/perf/peers/peer.h"

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  const roda::peers::Request request = roda::peers::parse_request(argc, argv);
  int rank = 0, ranks = 1;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  const auto allreduce = [](float* data, std::size_t count) {
    MPI_Allreduce(MPI_IN_PLACE, data, static_cast<int>(count), MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
  };
  const int result = roda::peers::measure("openmpi", request, rank, ranks, allreduce);
  MPI_Finalize();
  return result;
}

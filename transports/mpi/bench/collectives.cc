#include "transports/mpi/bench/raw.h"

#include <algorithm>
#include <cstdio>

namespace roda::mpi_raw {
namespace {

constexpr std::size_t kBytesPerMeasurement = std::size_t{256} << 20;
constexpr std::size_t kRounds = 20000;
constexpr int kWarmUp = 20;

struct Tensors {
  Tensors(std::size_t part, int ranks) : in(part * static_cast<std::size_t>(ranks), 1), out(in.size()) {
    for (int rank = 0; rank < ranks; ++rank) {
      counts.push_back(static_cast<int>(part));
      offsets.push_back(rank * static_cast<int>(part));
    }
  }
  std::vector<float> in, out;
  std::vector<int> counts, offsets;
};

struct Collective {
  const char* name;
  int (*start)(Tensors* tensors, MPI_Request* request);
};

constexpr MPI_Comm world() { return MPI_COMM_WORLD; }
int count_of(const Tensors& tensors) { return static_cast<int>(tensors.in.size()); }

const Collective kCollectives[] = {
    {"ALLREDUCE",
     [](Tensors* t, MPI_Request* request) {
       return MPI_Iallreduce(MPI_IN_PLACE, t->out.data(), count_of(*t), MPI_FLOAT, MPI_SUM, world(), request);
     }},
    {"BROADCAST",
     [](Tensors* t, MPI_Request* request) {
       return MPI_Ibcast(t->out.data(), count_of(*t), MPI_FLOAT, 0, world(), request);
     }},
    {"ALLGATHER",
     [](Tensors* t, MPI_Request* request) {
       return MPI_Iallgatherv(t->in.data(), t->counts[0], MPI_FLOAT, t->out.data(), t->counts.data(), t->offsets.data(),
                              MPI_FLOAT, world(), request);
     }},
    {"ALLTOALL",
     [](Tensors* t, MPI_Request* request) {
       return MPI_Ialltoallv(t->in.data(), t->counts.data(), t->offsets.data(), MPI_FLOAT, t->out.data(),
                             t->counts.data(), t->offsets.data(), MPI_FLOAT, world(), request);
     }},
    {"REDUCESCATTER",
     [](Tensors* t, MPI_Request* request) {
       return MPI_Ireduce_scatter(t->in.data(), t->out.data(), t->counts.data(), MPI_FLOAT, MPI_SUM, world(), request);
     }},
};

}  // namespace

void measure_collectives(int rank, int ranks, std::size_t bytes) {
  const std::size_t part = std::max<std::size_t>(bytes / sizeof(float) / static_cast<std::size_t>(ranks), 1);
  const auto rounds =
      static_cast<int>(std::clamp<std::size_t>(kBytesPerMeasurement / std::max<std::size_t>(bytes, 1), 30, kRounds));
  for (const Collective& collective : kCollectives) {
    Tensors tensors(part, ranks);
    std::vector<double> times;
    for (int round = -kWarmUp; round < rounds; ++round) {
      const double start = now_ns();
      MPI_Request request = MPI_REQUEST_NULL;
      collective.start(&tensors, &request);
      finish(&request);
      if (round >= 0) times.push_back(now_ns() - start);
    }
    std::sort(times.begin(), times.end());
    if (rank != 0) continue;
    std::printf("%-13s %9zu bytes  median %9.3f us  fastest %9.3f us\n", collective.name, bytes,
                times[times.size() / 2] / 1000, times.front() / 1000);
  }
}

}  // namespace roda::mpi_raw

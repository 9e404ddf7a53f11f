// Open MPI's own messages, measured and printed as roda-transport-perf does: what the mpi transport adds is the
// difference. As there, several threads may call MPI: its locks are taken either way. Started by mpirun on 2 ranks, or
// on any number for the collectives.
//   usage: mpi_raw [--bytes N[,N...]] [--repeats N] [--test latency|bandwidth|all|collectives]
#include "transports/mpi/bench/raw.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

#include "plugins/base/pages.h"

namespace roda::mpi_raw {
namespace {

constexpr int kPing = 1, kPong = 2, kStream = 3, kEnd = 4;
constexpr std::size_t kBytesPerMeasurement = std::size_t{2} << 30;
constexpr std::size_t kRounds = 20000;
constexpr int kWarmUp = 100;
constexpr int kWindow = 32;

struct Line {
  std::vector<std::size_t> sizes{8, 65536, 1u << 20};
  int repeats = 3;
  std::string test = "all";

  bool has(const char* name) const { return test == "all" || test == name; }
  bool is_of_collectives() const { return test == "collectives"; }
};

std::vector<std::size_t> parse_sizes(const char* text) {
  std::vector<std::size_t> sizes;
  for (char* end = nullptr; *text != '\0'; text = *end == ',' ? end + 1 : end) {
    std::size_t size = std::strtoull(text, &end, 10);
    if (end == text) break;
    if (*end == 'K' || *end == 'M') size <<= *end++ == 'K' ? 10 : 20;
    sizes.push_back(size);
  }
  return sizes;
}

MPI_Request send(int peer, int tag, const Pages& data) {
  MPI_Request request;
  MPI_Isend(data.data(), static_cast<int>(data.size()), MPI_BYTE, peer, tag, MPI_COMM_WORLD, &request);
  return request;
}

MPI_Request receive(int peer, int tag, Pages* data) {
  MPI_Request request;
  MPI_Irecv(data->data(), static_cast<int>(data->size()), MPI_BYTE, peer, tag, MPI_COMM_WORLD, &request);
  return request;
}

int rounds_of(std::size_t bytes) {
  return static_cast<int>(std::clamp<std::size_t>(kBytesPerMeasurement / std::max<std::size_t>(bytes, 1), 50, kRounds));
}

void measure_latency(int rank, std::size_t bytes) {
  Pages in(bytes, 'i'), out(bytes, 'o');
  std::vector<double> times;
  for (int round = -kWarmUp; round < rounds_of(bytes); ++round) {
    const double start = now_ns();
    MPI_Request received = receive(1 - rank, rank == 0 ? kPong : kPing, &in);
    if (rank == 1) finish(&received);
    MPI_Request sent = send(1 - rank, rank == 0 ? kPing : kPong, out);
    if (rank == 0) finish(&received);
    finish(&sent);
    if (round >= 0) times.push_back((now_ns() - start) / 2);
  }
  std::sort(times.begin(), times.end());
  if (rank != 0) return;
  std::printf("latency   %9zu bytes  median %9.3f us  fastest %9.3f us  99%% %9.3f us\n", bytes,
              times[times.size() / 2] / 1000, times.front() / 1000, times[times.size() * 99 / 100] / 1000);
}

void measure_bandwidth(int rank, std::size_t bytes) {
  Pages in(bytes, 'i'), out(bytes, 'o'), end(1);
  std::vector<MPI_Request> flying(kWindow, MPI_REQUEST_NULL);
  double start = now_ns();
  const int rounds = rounds_of(bytes);
  for (int round = -std::min(kWarmUp, rounds); round < rounds; ++round) {
    MPI_Request& slot = flying[static_cast<std::size_t>((round + kWarmUp) % kWindow)];
    finish(&slot);
    if (round == 0) start = now_ns();
    slot = rank == 0 ? send(1, kStream, out) : receive(0, kStream, &in);
  }
  for (MPI_Request& request : flying) finish(&request);
  MPI_Request last = rank == 0 ? receive(1, kEnd, &end) : send(0, kEnd, end);
  finish(&last);
  const double rate = static_cast<double>(bytes) * rounds / (now_ns() - start);
  if (rank != 0) return;
  std::printf("bandwidth %9zu bytes  %10.1f MB/s  %11.0f messages/s\n", bytes, rate * 1000,
              rate * 1e9 / static_cast<double>(bytes));
}

Line parse(int argc, char** argv) {
  Line line;
  for (int i = 1; i + 1 < argc; i += 2) {
    if (std::strcmp(argv[i], "--bytes") == 0) line.sizes = parse_sizes(argv[i + 1]);
    if (std::strcmp(argv[i], "--repeats") == 0) line.repeats = std::atoi(argv[i + 1]);
    if (std::strcmp(argv[i], "--test") == 0) line.test = argv[i + 1];
  }
  return line;
}

void measure(const Line& line, int rank, int ranks, std::size_t bytes) {
  for (int i = 0; i < line.repeats && line.is_of_collectives(); ++i) measure_collectives(rank, ranks, bytes);
  for (int i = 0; i < line.repeats && line.has("latency"); ++i) measure_latency(rank, bytes);
  for (int i = 0; i < line.repeats && line.has("bandwidth") && bytes > 0; ++i) measure_bandwidth(rank, bytes);
  std::fflush(stdout);
}

}  // namespace
}  // namespace roda::mpi_raw

int main(int argc, char** argv) {
  const roda::mpi_raw::Line line = roda::mpi_raw::parse(argc, argv);
  int rank = 0, ranks = 0, threads = 0;
  MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &threads);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  const bool fits = ranks == 2 || line.is_of_collectives();
  if (!fits) std::fprintf(stderr, "mpi_raw needs 2 ranks for messages\n");
  for (const std::size_t bytes : line.sizes) {
    if (fits) roda::mpi_raw::measure(line, rank, ranks, bytes);
  }
  MPI_Finalize();
  return fits ? 0 : 2;
}

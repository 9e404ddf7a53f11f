// Gloo's own messages between two processes of this host over TCP on loopback, measured and printed as
// roda-transport-perf does: what the gloo transport adds is the difference. Unbound buffers, as there.
//   usage: gloo_raw [--bytes N[,N...]] [--repeats N] [--test latency|bandwidth|all]
#include <gloo/rendezvous/context.h>
#include <gloo/rendezvous/file_store.h>
#include <gloo/transport/tcp/device.h>
#include <gloo/transport/unbound_buffer.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "plugins/base/pages.h"

namespace {

constexpr std::uint64_t kPing = 1, kPong = 2, kEnd = 3, kStream = 4;
constexpr std::size_t kBytesPerMeasurement = std::size_t{2} << 30;
constexpr std::size_t kRounds = 20000;
constexpr int kWarmUp = 100;
constexpr int kWindow = 32;

using roda::Pages;
using Context = std::shared_ptr<gloo::rendezvous::Context>;
using Buffer = std::unique_ptr<gloo::transport::UnboundBuffer>;

struct Line {
  std::vector<std::size_t> sizes{8, 65536, 1u << 20};
  int repeats = 3;
  std::string test = "all";

  bool has(const char* name) const { return test == "all" || test == name; }
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

double now_ns() {
  return static_cast<double>(std::chrono::steady_clock::now().time_since_epoch() / std::chrono::nanoseconds(1));
}

int rounds_of(std::size_t bytes) {
  return static_cast<int>(std::clamp<std::size_t>(kBytesPerMeasurement / std::max<std::size_t>(bytes, 1), 50, kRounds));
}

void measure_latency(const Context& context, int rank, std::size_t bytes) {
  Pages in(bytes, 'i'), out(bytes, 'o');
  const Buffer from = context->createUnboundBuffer(in.data(), bytes),
               to = context->createUnboundBuffer(out.data(), bytes);
  std::vector<double> times;
  for (int round = -kWarmUp; round < rounds_of(bytes); ++round) {
    const double start = now_ns();
    from->recv(1 - rank, rank == 0 ? kPong : kPing);
    if (rank == 1) from->waitRecv();
    to->send(1 - rank, rank == 0 ? kPing : kPong);
    if (rank == 0) from->waitRecv();
    to->waitSend();
    if (round >= 0) times.push_back((now_ns() - start) / 2);
  }
  std::sort(times.begin(), times.end());
  if (rank != 0) return;
  std::printf("latency   %9zu bytes  median %9.3f us  fastest %9.3f us  99%% %9.3f us\n", bytes,
              times[times.size() / 2] / 1000, times.front() / 1000, times[times.size() * 99 / 100] / 1000);
}

void measure_bandwidth(const Context& context, int rank, std::size_t bytes) {
  Pages data(bytes, 'd'), end(1);
  std::vector<Buffer> flying;
  for (int i = 0; i < kWindow; ++i) flying.push_back(context->createUnboundBuffer(data.data(), bytes));
  const Buffer last = context->createUnboundBuffer(end.data(), end.size());
  const auto begin = [&](int i) {
    const std::uint64_t slot = kStream + static_cast<std::uint64_t>(i);
    rank == 0 ? flying[static_cast<std::size_t>(i)]->send(1, slot) : flying[static_cast<std::size_t>(i)]->recv(0, slot);
  };
  const auto finish = [&](int i) {
    rank == 0 ? flying[static_cast<std::size_t>(i)]->waitSend() : flying[static_cast<std::size_t>(i)]->waitRecv();
  };
  double start = now_ns();
  const int warm_up = std::min(kWarmUp, rounds_of(bytes)), rounds = warm_up + rounds_of(bytes);
  for (int round = 0; round < rounds; ++round) {
    if (round >= kWindow) finish(round % kWindow);
    if (round == warm_up) start = now_ns();
    begin(round % kWindow);
  }
  for (int round = rounds; round < rounds + kWindow; ++round) finish(round % kWindow);
  rank == 0 ? last->recv(1, kEnd) : last->send(0, kEnd);
  rank == 0 ? last->waitRecv() : last->waitSend();
  const double rate = static_cast<double>(bytes) * rounds_of(bytes) / (now_ns() - start);
  if (rank != 0) return;
  std::printf("bandwidth %9zu bytes  %10.1f MB/s  %11.0f messages/s\n", bytes, rate * 1000,
              rate * 1e9 / static_cast<double>(bytes));
}

void run(int rank, const char* folder, const Line& line) {
  gloo::transport::tcp::attr attributes;
  attributes.hostname = "127.0.0.1";
  auto device = gloo::transport::tcp::CreateDevice(attributes);
  gloo::rendezvous::FileStore store(folder);
  const auto context = std::make_shared<gloo::rendezvous::Context>(rank, 2);
  context->connectFullMesh(store, device);
  for (const std::size_t bytes : line.sizes) {
    for (int i = 0; i < line.repeats && line.has("latency"); ++i) measure_latency(context, rank, bytes);
    for (int i = 0; i < line.repeats && line.has("bandwidth") && bytes > 0; ++i)
      measure_bandwidth(context, rank, bytes);
    std::fflush(stdout);
  }
}

}  // namespace

int main(int argc, char** argv) {
  Line line;
  for (int i = 1; i + 1 < argc; i += 2) {
    if (std::strcmp(argv[i], "--bytes") == 0) line.sizes = parse_sizes(argv[i + 1]);
    if (std::strcmp(argv[i], "--test") == 0) line.test = argv[i + 1];
    if (std::strcmp(argv[i], "--repeats") == 0) line.repeats = std::atoi(argv[i + 1]);
  }
  std::string folder = std::filesystem::temp_directory_path() / "gloo_raw.XXXXXX";
  if (::mkdtemp(folder.data()) == nullptr) return 1;
  const pid_t other = ::fork();
  run(other == 0 ? 1 : 0, folder.c_str(), line);
  if (other == 0) ::_exit(0);
  int status = 0;
  ::waitpid(other, &status, 0);
  std::filesystem::remove_all(folder);
  return status == 0 ? 0 : 1;
}

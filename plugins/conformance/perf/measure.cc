#include "plugins/conformance/perf/measure.h"

#include <poll.h>

#include <algorithm>
#include <cstdio>

#include "plugins/base/pages.h"
#include "plugins/conformance/perf/collectives.h"
#include "plugins/conformance/perf/talk.h"

namespace roda::conformance::perf {
namespace {

constexpr std::uint64_t kPing = 1, kPong = 2, kStream = 3, kEnd = 4;
constexpr std::size_t kBytesPerMeasurement = std::size_t{2} << 30;
constexpr int kWarmUp = 100;

int rounds_of(const Options& options, std::size_t bytes) {
  const std::size_t most = kBytesPerMeasurement / std::max<std::size_t>(bytes, 1);
  return static_cast<int>(std::clamp<std::size_t>(most, 50, static_cast<std::size_t>(options.rounds)));
}

struct Buffers {
  explicit Buffers(std::size_t bytes) : in(bytes, 'i'), out(bytes, 'o') {}
  Pages in, out;
};

// Half a round trip, nanoseconds: one figure per round, sorted.
std::vector<double> ping_pong(Talk& talk, int rank, std::size_t bytes, int rounds) {
  Buffers data(bytes);
  std::vector<double> times;
  times.reserve(static_cast<std::size_t>(rounds));
  for (int round = -kWarmUp; round < rounds; ++round) {
    const std::int64_t start = now_ns();
    if (rank == 0) {
      roda_request* received = talk.receive(kPong, data.in.data(), bytes);
      roda_request* sent = talk.send(kPing, data.out.data(), bytes);
      talk.finish(received);
      talk.finish(sent);
    } else {
      talk.finish(talk.receive(kPing, data.in.data(), bytes));
      talk.finish(talk.send(kPong, data.out.data(), bytes));
    }
    if (round >= 0) times.push_back(static_cast<double>(now_ns() - start) / 2);
  }
  std::sort(times.begin(), times.end());
  return times;
}

// Bytes per nanosecond from rank 0 to rank 1, up to the moment when rank 1 says that it has everything.
double stream(Talk& talk, int rank, std::size_t bytes, int rounds, int window) {
  Buffers data(bytes);
  std::vector<roda_request*> flying(static_cast<std::size_t>(window), nullptr);
  char end = 0;
  std::int64_t start = now_ns();
  for (int round = -std::min(kWarmUp, rounds); round < rounds; ++round) {
    roda_request*& slot = flying[static_cast<std::size_t>((round + kWarmUp) % window)];
    talk.finish(slot);
    if (round == 0) start = now_ns();
    slot = rank == 0 ? talk.send(kStream, data.out.data(), bytes) : talk.receive(kStream, data.in.data(), bytes);
  }
  for (roda_request* request : flying) talk.finish(request);
  talk.finish(rank == 0 ? talk.receive(kEnd, &end, 1) : talk.send(kEnd, &end, 1));
  return static_cast<double>(bytes) * rounds / static_cast<double>(now_ns() - start);
}

void measure_latency(Talk& talk, int rank, std::size_t bytes, const Options& options) {
  for (int i = 0; i < options.repeats; ++i) {
    const std::vector<double> ns = ping_pong(talk, rank, bytes, rounds_of(options, bytes));
    if (rank != 0) continue;
    std::printf("latency   %9zu bytes  median %9.3f us  fastest %9.3f us  99%% %9.3f us\n", bytes,
                ns[ns.size() / 2] / 1000, ns.front() / 1000, ns[ns.size() * 99 / 100] / 1000);
  }
}

void measure_bandwidth(Talk& talk, int rank, std::size_t bytes, const Options& options) {
  for (int i = 0; i < options.repeats; ++i) {
    const int rounds = rounds_of(options, bytes);
    const double rate = stream(talk, rank, bytes, rounds, options.window);
    if (rank != 0) continue;
    std::printf("bandwidth %9zu bytes  %10.1f MB/s  %11.0f messages/s\n", bytes, rate * 1000,
                rate * 1e9 / static_cast<double>(bytes));
  }
}

}  // namespace

void run(Env& env, const Options& options) {
  Group group(env, "perf");
  env.barrier();
  Talk talk(env, group, options.wait);
  if (options.collectives) {
    measure_collectives(env, talk, group, options);
  } else if (group.rank() < 2) {
    for (const std::size_t bytes : options.sizes) {
      if (options.latency) measure_latency(talk, group.rank(), bytes, options);
      if (options.bandwidth && bytes > 0) measure_bandwidth(talk, group.rank(), bytes, options);
      std::fflush(stdout);
    }
    env.world().note(group.rank()).store(1);
  } else {
    // Serves what the others' transport may want of it, without disturbing them.
    while (env.world().note(0).load() == 0 && !env.world().someone_failed()) {
      env.table().progress(env.context());
      ::poll(nullptr, 0, 10);
    }
  }
  if (!env.world().someone_failed()) group.destroy();
}

}  // namespace roda::conformance::perf

#include "plugins/conformance/measure.h"

#include <poll.h>
#include <sched.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <new>

namespace roda::conformance {
namespace {

// One rank's calls of a transport's table, as the measurements make them: started again while the transport is busy,
// then driven to their end in the way that was asked for.
class Talk {
 public:
  Talk(Env& env, Group& group, Measuring::Wait wait) : env_(env), group_(group), wait_(wait), peer_(1 - group.rank()) {}

  roda_request* send(std::uint64_t tag, const void* data, std::size_t bytes) {
    return begin(env_.table().send, peer_, tag, data, bytes, nullptr);
  }
  roda_request* receive(std::uint64_t tag, void* data, std::size_t bytes) {
    return begin(env_.table().recv, peer_, tag, data, bytes, nullptr);
  }
  roda_request* start(const roda_collective_args& args) { return begin(env_.table().collective_start, &args); }
  void finish(roda_request* request) {
    while (!is_done(request)) turn();
  }

 private:
  static constexpr std::uint32_t kTurnsPerLook = 4096;

  template <typename Entry, typename... Args>
  roda_request* begin(Entry entry, Args... args) {
    roda_request* request = nullptr;
    int32_t code = RODA_OK;
    while ((code = entry(group_.get(), args..., &request, &error_)) == RODA_AGAIN) turn();
    CHECK(code == RODA_OK, "%d %s", code, error_.message);
    return request;
  }

  bool is_done(roda_request* request) {
    if (request == nullptr) return true;
    const int32_t code = env_.table().request_test(group_.get(), request, &error_);
    CHECK(code >= RODA_OK, "%d %s", code, error_.message);
    return code == RODA_OK;
  }

  void turn() {
    if (++turns_ % kTurnsPerLook == 0) CHECK(!env_.world().someone_failed(), "stopped: the other rank failed");
    if (env_.table().progress(env_.context()) > 0 || wait_ == Measuring::Wait::kSpin) return;
    if (wait_ == Measuring::Wait::kYield || env_.table().progress_mode == RODA_PROGRESS_POLL) {
      ::sched_yield();
      return;
    }
    // Without a look at the request between arming and sleeping the sleep may be in vain: it is short.
    pollfd waiting{env_.table().event_fd(env_.context()), POLLIN, 0};
    if (env_.table().arm(env_.context()) == RODA_OK) ::poll(&waiting, 1, 1);
    if (env_.table().disarm != nullptr) env_.table().disarm(env_.context());
  }

  Env& env_;
  Group& group_;
  const Measuring::Wait wait_;
  const int peer_;
  std::uint32_t turns_ = 0;
  roda_error error_ = make_error();
};

constexpr std::uint64_t kPing = 1, kPong = 2, kStream = 3, kEnd = 4;
// What one measurement moves, at most, and what it begins with.
constexpr std::size_t kMessageBytes = std::size_t{2} << 30, kCollectiveBytes = std::size_t{256} << 20;
constexpr int kWarmUp = 100, kCollectiveWarmUp = 20;

int rounds_of(const Measuring& options, std::size_t bytes, std::size_t bytes_in_all, std::size_t least) {
  const std::size_t most = bytes_in_all / std::max<std::size_t>(bytes, 1);
  return static_cast<int>(std::clamp<std::size_t>(most, least, static_cast<std::size_t>(options.rounds)));
}

// Begins at a page, as large tensors do: how fast the kernel and memcpy copy depends on where in a page, and in a cache
// line, both ends begin.
using Pages = std::unique_ptr<char, decltype(&std::free)>;
Pages make_pages(std::size_t bytes, char fill) {
  constexpr std::size_t kPage = 4096;
  Pages made(static_cast<char*>(std::aligned_alloc(kPage, (bytes / kPage + 1) * kPage)), &std::free);
  if (made == nullptr) throw std::bad_alloc();
  std::memset(made.get(), fill, bytes);
  return made;
}

struct Buffers {
  explicit Buffers(std::size_t bytes) : in(make_pages(bytes, 'i')), out(make_pages(bytes, 'o')) {}
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
      roda_request* received = talk.receive(kPong, data.in.get(), bytes);
      roda_request* sent = talk.send(kPing, data.out.get(), bytes);
      talk.finish(received);
      talk.finish(sent);
    } else {
      talk.finish(talk.receive(kPing, data.in.get(), bytes));
      talk.finish(talk.send(kPong, data.out.get(), bytes));
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
    slot = rank == 0 ? talk.send(kStream, data.out.get(), bytes) : talk.receive(kStream, data.in.get(), bytes);
  }
  for (roda_request* request : flying) talk.finish(request);
  talk.finish(rank == 0 ? talk.receive(kEnd, &end, 1) : talk.send(kEnd, &end, 1));
  return static_cast<double>(bytes) * rounds / static_cast<double>(now_ns() - start);
}

void measure_latency(Talk& talk, int rank, std::size_t bytes, const Measuring& options) {
  for (int i = 0; i < options.repeats; ++i) {
    const std::vector<double> ns = ping_pong(talk, rank, bytes, rounds_of(options, bytes, kMessageBytes, 50));
    if (rank != 0) continue;
    std::printf("latency   %9zu bytes  median %9.3f us  fastest %9.3f us  99%% %9.3f us\n", bytes,
                ns[ns.size() / 2] / 1000, ns.front() / 1000, ns[ns.size() * 99 / 100] / 1000);
  }
}

void measure_bandwidth(Talk& talk, int rank, std::size_t bytes, const Measuring& options) {
  for (int i = 0; i < options.repeats; ++i) {
    const int rounds = rounds_of(options, bytes, kMessageBytes, 50);
    const double rate = stream(talk, rank, bytes, rounds, options.window);
    if (rank != 0) continue;
    std::printf("bandwidth %9zu bytes  %10.1f MB/s  %11.0f messages/s\n", bytes, rate * 1000,
                rate * 1e9 / static_cast<double>(bytes));
  }
}

// Whole tensors on both sides: what a collective takes in parts, it takes from or leaves in a part of them.
struct Tensors {
  Tensors(std::size_t count, int ranks)
      : in(count, 1), out(count), parts(static_cast<std::size_t>(ranks), count / static_cast<std::size_t>(ranks)) {}
  std::vector<float> in, out;
  std::vector<std::size_t> parts;
};

roda_collective_args arguments_for(Env& env, int collective, Tensors& tensors) {
  roda_collective_args args = arguments(env, collective);
  const bool in_place = roda_collective_of(collective)->input == RODA_WHOLE;
  args.input = in_place ? tensors.out.data() : tensors.in.data();
  args.output = tensors.out.data();
  args.count = tensors.in.size();
  args.send_counts = args.recv_counts = tensors.parts.data();
  return args;
}

// Nanoseconds of one after the other, sorted.
std::vector<double> times_of(Talk& talk, roda_collective_args args, int rounds) {
  std::vector<double> times;
  for (int round = -kCollectiveWarmUp; round < rounds; ++round) {
    const std::int64_t start = now_ns();
    ++args.tag;
    talk.finish(talk.start(args));
    if (round >= 0) times.push_back(static_cast<double>(now_ns() - start));
  }
  std::sort(times.begin(), times.end());
  return times;
}

// Every one that the transport supports for float32 sums on the host, one at a time, in equal parts where it has parts;
// `sizes` are bytes of the whole tensor. All ranks of the group. Rank 0 prints a line per collective and size.
void measure_collectives(Env& env, Talk& talk, Group& group, const Measuring& options) {
  for (int collective = 0; collective < RODA_COLLECTIVE_COUNT; ++collective) {
    if (roda_collective_of(collective)->input == RODA_NOTHING) continue;
    if (env.table().collective_supported(env.context(), collective, RODA_FLOAT32, RODA_SUM, RODA_MEMORY_HOST) == 0) {
      continue;
    }
    for (const std::size_t bytes : options.sizes) {
      const std::size_t part = std::max<std::size_t>(bytes / sizeof(float) / static_cast<std::size_t>(group.size()), 1);
      Tensors tensors(part * static_cast<std::size_t>(group.size()), group.size());
      const roda_collective_args args = arguments_for(env, collective, tensors);
      for (int i = 0; i < options.repeats; ++i) {
        const std::vector<double> ns = times_of(talk, args, rounds_of(options, bytes, kCollectiveBytes, 30));
        if (group.rank() != 0) continue;
        std::printf("%-13s %9zu bytes  median %9.3f us  fastest %9.3f us\n", roda_collective_name(collective), bytes,
                    ns[ns.size() / 2] / 1000, ns.front() / 1000);
        std::fflush(stdout);
      }
    }
  }
}

void run(Env& env, const Measuring& options) {
  using What = Measuring::What;
  Group group(env, "perf");
  env.barrier();
  Talk talk(env, group, options.wait);
  if (options.what == What::kCollectives) {
    measure_collectives(env, talk, group, options);
  } else if (group.rank() < 2) {
    for (const std::size_t bytes : options.sizes) {
      if (options.what != What::kBandwidth) measure_latency(talk, group.rank(), bytes, options);
      if (options.what != What::kLatency && bytes > 0) measure_bandwidth(talk, group.rank(), bytes, options);
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

}  // namespace

Case measurement(const Measuring& how) {
  const bool is_native = how.what == Measuring::What::kCollectives;
  return {"perf", "measured", is_native ? RODA_CAP_NATIVE : RODA_CAP_P2P, 2, [how](Env& env) { run(env, how); }};
}

}  // namespace roda::conformance

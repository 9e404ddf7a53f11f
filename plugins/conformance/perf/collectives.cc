#include "plugins/conformance/perf/collectives.h"

#include <algorithm>
#include <cstdio>

namespace roda::conformance::perf {
namespace {

constexpr std::size_t kBytesPerMeasurement = std::size_t{256} << 20;
constexpr int kWarmUp = 20;

int rounds_of(const Options& options, std::size_t bytes) {
  const std::size_t most = kBytesPerMeasurement / std::max<std::size_t>(bytes, 1);
  return static_cast<int>(std::clamp<std::size_t>(most, 30, static_cast<std::size_t>(options.rounds)));
}

// Whole tensors on both sides: what a collective takes in parts, it takes from or leaves in a part of them.
struct Tensors {
  Tensors(std::size_t count, int ranks)
      : in(count, 1), out(count), parts(static_cast<std::size_t>(ranks), count / static_cast<std::size_t>(ranks)) {}
  std::vector<float> in, out;
  std::vector<std::size_t> parts;
};

roda_collective_args arguments(int collective, const Tensors& tensors, float* out) {
  roda_collective_args args{};
  args.struct_size = sizeof args;
  args.collective = collective;
  args.dtype = RODA_FLOAT32;
  args.op = RODA_SUM;
  args.memory_kind = RODA_MEMORY_HOST;
  const bool in_place = roda_collective_of(collective)->input == RODA_WHOLE;
  args.input = in_place ? out : tensors.in.data();
  args.output = out;
  args.count = tensors.in.size();
  args.send_counts = args.recv_counts = tensors.parts.data();
  return args;
}

// Nanoseconds of one after the other, sorted.
std::vector<double> times_of(Talk& talk, roda_collective_args args, int rounds) {
  std::vector<double> times;
  for (int round = -kWarmUp; round < rounds; ++round) {
    const std::int64_t start = now_ns();
    ++args.tag;
    talk.finish(talk.start(args));
    if (round >= 0) times.push_back(static_cast<double>(now_ns() - start));
  }
  std::sort(times.begin(), times.end());
  return times;
}

}  // namespace

void measure_collectives(Env& env, Talk& talk, Group& group, const Options& options) {
  for (int collective = 0; collective < RODA_COLLECTIVE_COUNT; ++collective) {
    if (roda_collective_of(collective)->input == RODA_NOTHING) continue;
    if (env.table().collective_supported(env.context(), collective, RODA_FLOAT32, RODA_SUM, RODA_MEMORY_HOST) == 0) {
      continue;
    }
    for (const std::size_t bytes : options.sizes) {
      const std::size_t part = std::max<std::size_t>(bytes / sizeof(float) / static_cast<std::size_t>(group.size()), 1);
      Tensors tensors(part * static_cast<std::size_t>(group.size()), group.size());
      const roda_collective_args args = arguments(collective, tensors, tensors.out.data());
      for (int i = 0; i < options.repeats; ++i) {
        const std::vector<double> ns = times_of(talk, args, rounds_of(options, bytes));
        if (group.rank() != 0) continue;
        std::printf("%-13s %9zu bytes  median %9.3f us  fastest %9.3f us\n", roda_collective_name(collective), bytes,
                    ns[ns.size() / 2] / 1000, ns.front() / 1000);
        std::fflush(stdout);
      }
    }
  }
}

}  // namespace roda::conformance::perf

// Plays seeds, one after the other, until one goes wrong.
//
//   seeds --seconds 60            fresh ones
//   seeds --seed 17               one, twice: both must go the same way; with what happens, line by line
//   seeds --seed 17 --count 1000  these and those after
#include <chrono>
#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <random>
#include <string>

#include "tests/seeds/world.h"

namespace {

using roda::seeds::Outcome;

struct Asked {
  std::uint64_t seed = 0;
  bool is_one = false;
  std::uint64_t count = UINT64_MAX;
  double seconds = 1e9;
};

bool parse(int argc, char** argv, Asked* asked) {
  bool has_count = false, has_seed = false;
  for (int i = 1; i + 1 < argc; i += 2) {
    const std::string name = argv[i];
    if (name == "--seed") {
      asked->seed = std::strtoull(argv[i + 1], nullptr, 10);
      has_seed = true;
    } else if (name == "--count") {
      asked->count = std::strtoull(argv[i + 1], nullptr, 10);
      has_count = true;
    } else if (name == "--seconds") {
      asked->seconds = std::strtod(argv[i + 1], nullptr);
    } else {
      return false;
    }
  }
  asked->is_one = has_seed && !has_count;
  if (!has_seed) asked->seed = std::random_device()();
  return argc % 2 == 1;
}

int play_one(std::uint64_t seed) {
  const Outcome first = roda::seeds::play(seed, true);
  const Outcome again = roda::seeds::play(seed, false);
  std::printf("%s\n", first.wrong.empty() ? "all went well" : first.wrong.c_str());
  if (first.trace != again.trace) std::printf("a second time the seed goes another way\n");
  return first.wrong.empty() && first.trace == again.trace ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) try {
  Asked asked;
  if (!parse(argc, argv, &asked)) {
    std::fprintf(stderr, "usage: seeds [--seed N] [--count N] [--seconds S]\n");
    return 2;
  }
  setenv("HOROVOD_LOG_LEVEL", "fatal", 0);  // engines that end are told of otherwise
  std::setvbuf(stdout, nullptr, _IOLBF, 0);
  if (asked.is_one) return play_one(asked.seed);
  std::printf("seeds from %" PRIu64 " on\n", asked.seed);
  const auto begun = std::chrono::steady_clock::now();
  const auto seconds = [&] { return std::chrono::duration<double>(std::chrono::steady_clock::now() - begun).count(); };
  std::uint64_t played = 0, steps = 0, calls = 0, deaths = 0;
  int status = 0;
  while (status == 0 && played < asked.count && seconds() < asked.seconds) {
    const std::uint64_t seed = asked.seed + played++;
    const Outcome outcome = roda::seeds::play(seed, false);
    steps += outcome.steps;
    calls += outcome.calls;
    deaths += outcome.victim.has_value();
    if (outcome.wrong.empty()) continue;
    std::printf("seed %" PRIu64 ": %s\n", seed, outcome.wrong.c_str());
    status = 1;
  }
  std::printf("%" PRIu64 " seeds, %" PRIu64 " steps, %" PRIu64 " calls, %" PRIu64 " deaths, %.0f s\n", played, steps,
              calls, deaths, seconds());
  return status;
} catch (const std::exception& error) {
  std::fprintf(stderr, "seeds: the ranks can't meet: %s (HOROVOD_PLUGIN_PATH names the folder of the transport loop)\n",
               error.what());
  return 2;
}

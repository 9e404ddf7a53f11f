// Plays seeds, one after the other, until one goes wrong.
//
//   seeds --seconds 60            fresh ones
//   seeds --seed 17               one, twice: both must go the same way; with what happens, line by line
//   seeds --seed 17 --count 1000  these and those after
//
// Of one seed: --schedule N, the same job in another order; --ranks N, --hosts N, --calls 0,3,4, --faults 0: less of
// it;
// --schedules N: in so many orders, up to the first that goes wrong.
#include <chrono>
#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <random>
#include <string>
#include <vector>

#include "tests/seeds/world.h"

namespace {

using roda::seeds::Outcome;
using roda::seeds::Play;

struct Asked {
  Play play;
  bool is_one = false;
  std::uint64_t count = UINT64_MAX;
  std::uint64_t schedules = 0;
  double seconds = 1e9;
};

std::vector<std::size_t> numbers(const char* text) {
  std::vector<std::size_t> all;
  for (char* end = nullptr; *text != '\0'; text = *end == ',' ? end + 1 : end) {
    all.push_back(std::strtoull(text, &end, 10));
    if (end == text) return {};
  }
  return all;
}

bool parse(int argc, char** argv, Asked* asked) {
  bool has_count = false, has_seed = false;
  for (int i = 1; i + 1 < argc; i += 2) {
    const std::string name = argv[i];
    const char* const text = argv[i + 1];
    const std::uint64_t number = std::strtoull(text, nullptr, 10);
    has_count = has_count || name == "--count";
    has_seed = has_seed || name == "--seed";
    if (name == "--seed") {
      asked->play.seed = number;
    } else if (name == "--count") {
      asked->count = number;
    } else if (name == "--seconds") {
      asked->seconds = std::strtod(text, nullptr);
    } else if (name == "--schedule") {
      asked->play.schedule = number;
    } else if (name == "--schedules") {
      asked->schedules = number;
    } else if (name == "--ranks") {
      asked->play.ranks = static_cast<int>(number);
    } else if (name == "--hosts") {
      asked->play.hosts = static_cast<int>(number);
    } else if (name == "--calls") {
      asked->play.calls = numbers(text);
    } else if (name == "--faults") {
      asked->play.has_faults = number != 0;
    } else {
      return false;
    }
  }
  asked->is_one = has_seed && !has_count;
  if (!has_seed) asked->play.seed = std::random_device()();
  return argc % 2 == 1;
}

int play_one(Play what) {
  what.tells = true;
  const Outcome first = roda::seeds::play(what);
  what.tells = false;
  const Outcome again = roda::seeds::play(what);
  std::printf("%d ranks on %d hosts, %zu calls: %s\n", first.ranks, first.hosts, first.job_calls,
              first.wrong.empty() ? "all went well" : first.wrong.c_str());
  if (first.trace != again.trace) std::printf("a second time the seed goes another way\n");
  return first.wrong.empty() && first.trace == again.trace ? 0 : 1;
}

// The first order of the job that goes wrong is told for tools/seeds.py.
int play_orders(Play what, std::uint64_t count) {
  for (; count > 0; --count, ++what.schedule) {
    const Outcome outcome = roda::seeds::play(what);
    if (outcome.wrong.empty()) continue;
    std::printf("schedule %" PRIu64 " ranks %d hosts %d calls %zu: %s\n", what.schedule, outcome.ranks, outcome.hosts,
                outcome.job_calls, outcome.wrong.c_str());
    return 1;
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) try {
  Asked asked;
  if (!parse(argc, argv, &asked)) {
    std::fprintf(stderr, "usage: seeds [--seed N] [--count N] [--seconds S] …; see tests/seeds/seeds.cc\n");
    return 2;
  }
  setenv("HOROVOD_LOG_LEVEL", "fatal", 0);  // engines that end are told of otherwise
  std::setvbuf(stdout, nullptr, _IOLBF, 0);
  if (asked.schedules > 0) return play_orders(asked.play, asked.schedules);
  if (asked.is_one) return play_one(asked.play);
  std::printf("seeds from %" PRIu64 " on\n", asked.play.seed);
  const auto begun = std::chrono::steady_clock::now();
  const auto seconds = [&] { return std::chrono::duration<double>(std::chrono::steady_clock::now() - begun).count(); };
  std::uint64_t played = 0, steps = 0, calls = 0, faults = 0;
  int status = 0;
  while (status == 0 && played < asked.count && seconds() < asked.seconds) {
    const Outcome outcome = roda::seeds::play(asked.play);
    const std::uint64_t seed = asked.play.seed++;
    ++played;
    steps += outcome.steps;
    calls += outcome.calls;
    faults += outcome.faults;
    if (outcome.wrong.empty()) continue;
    std::printf("seed %" PRIu64 ": %s\n", seed, outcome.wrong.c_str());
    status = 1;
  }
  std::printf("%" PRIu64 " seeds, %" PRIu64 " steps, %" PRIu64 " calls, %" PRIu64 " faults, %.0f s\n", played, steps,
              calls, faults, seconds());
  return status;
} catch (const std::exception& error) {
  std::fprintf(stderr, "seeds: the ranks can't meet: %s (HOROVOD_PLUGIN_PATH names the folder of the transport loop)\n",
               error.what());
  return 2;
}

// What one roda-perf run measures, from the command line. A value; every rank of a job parses the same one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace roda::perf {

enum class Place { kIn, kOut, kBoth };

struct CommandLine {
  std::vector<std::int32_t> collectives, dtypes, ops;
  std::vector<std::size_t> sizes;  // empty: from min_bytes to max_bytes
  std::size_t min_bytes = 4;
  std::size_t max_bytes = 64u << 20;
  double factor = 4;
  int ranks = 2;
  int hosts = 1;                        // that the ranks are to think they are on, as many on each
  std::vector<std::string> transports;  // "" is the engine's own choice
  std::vector<std::string> algorithms;  // "" is the engine's own choice
  int warmup = -1;                      // -1: by size
  int iterations = -1;                  // -1: by size
  Place place = Place::kIn;
  bool check = true;
  bool json = false;
  std::string model;        // "": sweep
  double idle_seconds = 0;  // > 0: measure an idle process instead
  bool control = false;     // count the control plane's messages instead
  bool launched = false;    // every process is a rank already
  std::optional<int> job;   // set in a rank that roda-perf started itself: index into jobs()
};

// One start of the ranks: the engine reads transport and algorithm at init.
struct Job {
  std::string transport;
  std::string algorithm;
};
std::vector<Job> jobs(const CommandLine& options);

// nullopt when the program is to end with *exit_code (help was printed, or what is wrong).
std::optional<CommandLine> parse_options(int argc, char** argv, int* exit_code);

}  // namespace roda::perf

// roda-transport-perf: latency and bandwidth of one transport's messages, or the time of its native collectives,
// between ranks of this host.
#include <getopt.h>

#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "plugins/conformance/perf/measure.h"
#include "plugins/conformance/runner.h"
#include "plugins/devices/cpu/cpu_device.h"
#include "plugins/loader/host.h"
#include "plugins/loader/loader.h"

namespace {

using roda::conformance::Report;
using roda::conformance::World;
using roda::conformance::perf::Options;
using roda::conformance::perf::Wait;

constexpr const char* kUsage =
    "usage: roda-transport-perf --plugin NAME_OR_PATH [--bytes N[,N...]]\n"
    "                           [--test latency|bandwidth|all|collectives]\n"
    "                           [--rounds N] [--repeats N] [--window N] [--wait spin|yield|sleep]\n"
    "                           [--ranks N | --launched]\n"
    "Ping-pong and streams of messages between ranks 0 and 1 through the transport's table, or its native collectives\n"
    "among all ranks; sizes may end in K or M.\n"
    "Ranks are processes, or threads of one process if the transport reaches no further; with --launched every process "
    "is\n"
    "a rank, started on one host by a launcher that the plugin's bootstrap knows (mpirun, say).\n";

struct Line {
  std::string plugin;
  int ranks = 2;
  bool launched = false;
  Options options;
};

bool parse_sizes(const char* text, std::vector<std::size_t>* sizes) {
  sizes->clear();
  for (char* end = nullptr; *text != '\0'; text = *end == ',' ? end + 1 : end) {
    std::size_t size = std::strtoull(text, &end, 10);
    if (end == text) return false;
    if (*end == 'K' || *end == 'M') size <<= *end++ == 'K' ? 10 : 20;
    if (*end != '\0' && *end != ',') return false;
    sizes->push_back(size);
  }
  return !sizes->empty();
}

bool parse_wait(const std::string& text, Wait* wait) {
  if (text == "spin") *wait = Wait::kSpin;
  if (text == "yield") *wait = Wait::kYield;
  if (text == "sleep") *wait = Wait::kSleep;
  return text == "spin" || text == "yield" || text == "sleep";
}

bool apply(int which, const std::string& value, Line* line) {
  Options& options = line->options;
  switch (which) {
    case 'p':
      line->plugin = value;
      return true;
    case 'b':
      return parse_sizes(value.c_str(), &options.sizes);
    case 't':
      options.latency = value == "latency" || value == "all";
      options.bandwidth = value == "bandwidth" || value == "all";
      options.collectives = value == "collectives";
      return options.latency || options.bandwidth || options.collectives;
    case 'w':
      return parse_wait(value, &options.wait);
    case 'r':
      return (options.rounds = std::atoi(value.c_str())) > 0;
    case 'e':
      return (options.repeats = std::atoi(value.c_str())) > 0;
    case 'o':
      return (options.window = std::atoi(value.c_str())) > 0;
    case 'n':
      line->ranks = std::atoi(value.c_str());
      return line->ranks >= 2 && line->ranks <= World::kMaxRanks;
    case 'L':
      return line->launched = true;
    default:
      return false;
  }
}

bool parse(int argc, char** argv, Line* line) {
  const option known[] = {{"plugin", required_argument, nullptr, 'p'}, {"bytes", required_argument, nullptr, 'b'},
                          {"test", required_argument, nullptr, 't'},   {"wait", required_argument, nullptr, 'w'},
                          {"rounds", required_argument, nullptr, 'r'}, {"repeats", required_argument, nullptr, 'e'},
                          {"window", required_argument, nullptr, 'o'}, {"ranks", required_argument, nullptr, 'n'},
                          {"launched", no_argument, nullptr, 'L'},     {nullptr, 0, nullptr, 0}};
  for (int c = 0; (c = ::getopt_long(argc, argv, "", known, nullptr)) != -1;) {
    if (c == '?' || !apply(c, optarg != nullptr ? optarg : "", line)) return false;
  }
  return optind == argc && !line->plugin.empty();
}

// The measurement is a case of the kit that may take as long as it likes.
Report run(const Line& line, const roda::plugins::PluginRecord& plugin, const roda_host* host, std::uint64_t needs) {
  roda::conformance::case_seconds() = 24 * 3600;
  const roda::conformance::Case measurement{
      "perf", "", needs, 2, roda::conformance::kPlain, [&line](roda::conformance::Env& env) {
        roda::conformance::perf::run(env, line.options);
      }};
  const auto announce = [&] {
    std::printf("%s (%s)\n", plugin.name.c_str(), plugin.description.c_str());
    std::fflush(stdout);
  };
  if (!line.launched) {
    announce();
    return roda::conformance::run_case(measurement, *plugin.transport, host, line.ranks);
  }
  roda::conformance::LaunchedJob job(plugin.bootstrap, host);
  if (!job.error().empty()) return {Report::kFailed, job.error(), 0};
  if (job.rank() == 0) announce();
  return job.run_case(measurement, *plugin.transport, host);
}

}  // namespace

int main(int argc, char** argv) {
  Line line;
  if (!parse(argc, argv, &line)) {
    std::fputs(kUsage, stderr);
    return 2;
  }
  roda::plugins::Host host(
      [](int level, const char* component, const char* text) {
        if (level >= RODA_LOG_WARNING) std::fprintf(stderr, "[%s] %s\n", component, text);
      },
      roda_cpu_device());
  roda::plugins::Loader loader(*host.table());
  const bool is_path = line.plugin.find('/') != std::string::npos;
  if (!is_path) loader.scan();
  const roda::plugins::PluginRecord* plugin = is_path ? &loader.add(line.plugin) : loader.find(line.plugin);
  const std::uint64_t needed = line.options.collectives ? RODA_CAP_NATIVE : RODA_CAP_P2P;
  if (plugin == nullptr || !plugin->usable || (plugin->transport->capabilities & needed) == 0) {
    const std::string reason =
        plugin == nullptr ? "no plugin of that name"
        : plugin->usable  ? line.options.collectives ? "it has no collectives of its own" : "it has no messages"
                          : plugin->reason;
    std::fprintf(stderr, "%s: %s\n", line.plugin.c_str(), reason.c_str());
    return 2;
  }
  const Report report = run(line, *plugin, host.table(), needed);
  if (report.verdict == Report::kPassed) return 0;
  std::fprintf(stderr, "%s: %s\n", line.plugin.c_str(), report.text.c_str());
  return 1;
}

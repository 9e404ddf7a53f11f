// roda-transport-perf: latency and bandwidth of one transport's messages, or the time of its native collectives,
// between ranks of this host.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <map>
#include <optional>
#include <string>

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

constexpr const char* kDescription =
    "Ping-pong and streams of messages between ranks 0 and 1 through a transport's table, or its native collectives\n"
    "among all ranks. Ranks are processes, or threads of one process if the transport reaches no further.";

enum class Test { kLatency, kBandwidth, kAll, kCollectives };

struct Line {
  std::string plugin;
  int ranks = 2;
  bool launched = false;
  Test test = Test::kAll;
  Options options;
};

// What the program is to end with, where it is: help was printed, or what is wrong.
std::optional<int> parse(int argc, char** argv, Line* line) {
  const std::map<std::string, Test> tests = {{"latency", Test::kLatency},
                                             {"bandwidth", Test::kBandwidth},
                                             {"all", Test::kAll},
                                             {"collectives", Test::kCollectives}};
  const std::map<std::string, Wait> waits = {{"spin", Wait::kSpin}, {"yield", Wait::kYield}, {"sleep", Wait::kSleep}};
  Options& options = line->options;
  CLI::App app(kDescription, "roda-transport-perf");
  app.add_option("--plugin", line->plugin, "name, looked for in HOROVOD_PLUGIN_PATH and beside the program, or path")
      ->required();
  app.add_option("--bytes", options.sizes, "sizes, as in 8,64K,1M")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->transform(CLI::AsSizeValue(false));
  app.add_option("--test", line->test, "(default: all)")->transform(CLI::CheckedTransformer(tests));
  app.add_option("--rounds", options.rounds, "of 8 bytes; fewer for long messages")->check(CLI::PositiveNumber);
  app.add_option("--repeats", options.repeats, "of each measurement")->check(CLI::PositiveNumber);
  app.add_option("--window", options.window, "messages in flight in the bandwidth test")->check(CLI::PositiveNumber);
  app.add_option("--wait", options.wait, "(default: spin)")->transform(CLI::CheckedTransformer(waits));
  app.add_option("--ranks", line->ranks, "ranks to start")->check(CLI::Range(2, World::kMaxRanks));
  app.add_flag("--launched", line->launched,
               "every process is a rank, started on one host by a launcher that the plugin's bootstrap knows");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  }
  options.latency = line->test == Test::kLatency || line->test == Test::kAll;
  options.bandwidth = line->test == Test::kBandwidth || line->test == Test::kAll;
  options.collectives = line->test == Test::kCollectives;
  return std::nullopt;
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
  if (const auto exit_code = parse(argc, argv, &line)) return *exit_code;
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

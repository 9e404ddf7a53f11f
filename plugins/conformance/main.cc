// roda-conformance: runs the conformance kit against one transport.
#include <getopt.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <string>
#include <vector>

#include "plugins/conformance/runner.h"
#include "plugins/devices/cpu/cpu_device.h"
#include "plugins/loader/host.h"
#include "plugins/loader/loader.h"

namespace {

using roda::conformance::Case;
using roda::conformance::Report;

struct Options {
  std::string plugin;
  std::string only;
  std::string memory = "host";
  int ranks = 2;
  bool verbose = false;
  bool list = false;
  bool launched = false;
  bool help = false;
};

constexpr const char* kUsage =
    "usage: roda-conformance --plugin NAME_OR_PATH [--ranks N] [--memory host|cuda] [--only PREFIX] [--seconds N]\n"
    "                        [--verbose]\n"
    "       LAUNCHER roda-conformance --plugin NAME_OR_PATH --launched [--only PREFIX] [--seconds N] [--verbose]\n"
    "       roda-conformance --list\n"
    "Runs every case of the kit against a transport plugin, found by name in HOROVOD_PLUGIN_PATH and beside the "
    "program,\n"
    "or by path. Ranks are processes, or threads of one process if the transport reaches no further. With --launched "
    "every\n"
    "process is a rank, started on one host by a launcher that the plugin's bootstrap knows (mpirun, say).\n"
    "With --memory cuda the data lie on GPUs, through the device plugin of that name; rank N uses GPU N.\n"
    "--seconds: how long a case may take (40).\n"
    "Exit code: 0 when no case failed, 1 when one did, 2 when the plugin can't be used or the command line is wrong.\n";

// What is wrong, where getopt has not told it; nullopt: nothing.
std::optional<std::string> wrong_with(const Options& options, const std::vector<std::string>& rest) {
  using roda::conformance::World;
  if (!rest.empty()) return "what is " + rest.front() + "? A plugin is given by --plugin";
  if (options.memory != "host" && options.memory != "cuda") return "--memory is host or cuda";
  if (roda::conformance::case_seconds() < 1) return "--seconds is at least 1";
  if (options.ranks < 1 || options.ranks > World::kMaxRanks) {
    return "--ranks is from 1 to " + std::to_string(World::kMaxRanks);
  }
  if (!options.list && !options.help && options.plugin.empty()) return "--plugin is missing";
  return std::nullopt;
}

// False: the command line is wrong, and how was told.
bool parse(int argc, char** argv, Options* options) {
  const option known[] = {{"plugin", required_argument, nullptr, 'p'},  {"ranks", required_argument, nullptr, 'n'},
                          {"only", required_argument, nullptr, 'o'},    {"memory", required_argument, nullptr, 'm'},
                          {"seconds", required_argument, nullptr, 's'}, {"verbose", no_argument, nullptr, 'v'},
                          {"list", no_argument, nullptr, 'l'},          {"launched", no_argument, nullptr, 'L'},
                          {"help", no_argument, nullptr, 'h'},          {nullptr, 0, nullptr, 0}};
  for (int c = 0; (c = ::getopt_long(argc, argv, "p:n:o:m:s:vlh", known, nullptr)) != -1;) {
    if (c == 'p')
      options->plugin = optarg;
    else if (c == 'n')
      options->ranks = std::atoi(optarg);
    else if (c == 'o')
      options->only = optarg;
    else if (c == 'm')
      options->memory = optarg;
    else if (c == 's')
      roda::conformance::case_seconds() = std::atoi(optarg);
    else if (c == 'v')
      options->verbose = true;
    else if (c == 'l')
      options->list = true;
    else if (c == 'L')
      options->launched = true;
    else if (c == 'h')
      options->help = true;
    else
      return false;
  }
  const auto wrong = wrong_with(*options, {argv + optind, argv + argc});
  if (wrong) std::fprintf(stderr, "roda-conformance: %s\n", wrong->c_str());
  return !wrong;
}

const roda::plugins::PluginRecord* open_plugin(roda::plugins::Loader* loader, const std::string& plugin) {
  if (plugin.find('/') != std::string::npos) return &loader->add(plugin);
  loader->scan();
  return loader->find(plugin);
}

void print(const Case& which, const Report& report) {
  const char* words[] = {"ok  ", "skip", "FAIL"};
  std::printf("%s  %-24s", words[report.verdict], which.name);
  if (report.verdict == Report::kSkipped) {
    std::printf(" %s\n", report.text.c_str());
  } else {
    std::printf(" %5d ms  %s\n", static_cast<int>(report.milliseconds), which.summary);
  }
  if (report.verdict == Report::kFailed) std::printf("%s\n", report.text.c_str());
  std::fflush(stdout);
}

// Runs the chosen cases by `run`, which returns a Report; the exit code.
template <typename Run>
int run_cases(const Options& options, const roda::plugins::PluginRecord& plugin, int ranks, bool speaks, Run&& run) {
  if (speaks) std::printf("%s (%s), %d ranks\n", plugin.name.c_str(), plugin.description.c_str(), ranks);
  int counts[3] = {};
  for (const Case& which : roda::conformance::all_cases()) {
    if (std::string(which.name).rfind(options.only, 0) != 0) continue;
    const Report report = run(which);
    if (speaks) print(which, report);
    ++counts[report.verdict];
  }
  if (speaks) std::printf("%d passed, %d skipped, %d failed\n", counts[0], counts[1], counts[2]);
  return counts[2] == 0 && counts[0] > 0 ? 0 : 1;
}

int run_forked(const Options& options, const roda::plugins::PluginRecord& plugin, const roda_host* host,
               const roda_device* device) {
  return run_cases(options, plugin, options.ranks, true, [&](const Case& which) {
    return roda::conformance::run_case(which, *plugin.transport, host, options.ranks, device);
  });
}

int run_launched(const Options& options, const roda::plugins::PluginRecord& plugin, const roda_host* host) {
  roda::conformance::LaunchedJob job(plugin.bootstrap, host);
  if (!job.error().empty()) {
    std::fprintf(stderr, "%s: %s\n", plugin.name.c_str(), job.error().c_str());
    return 2;
  }
  return run_cases(options, plugin, job.size(), job.rank() == 0,
                   [&](const Case& which) { return job.run_case(which, *plugin.transport, host); });
}

int report_no_device(const roda::plugins::Loader& loader) {
  std::fprintf(stderr, "--memory cuda: no usable device plugin is in the search path\n");
  for (const roda::plugins::PluginRecord* record : loader.records()) {
    if (record->kind == "device") std::fprintf(stderr, "  %s: %s\n", record->path.c_str(), record->reason.c_str());
  }
  return 2;
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  if (!parse(argc, argv, &options)) {
    std::fputs("roda-conformance --help prints the options\n", stderr);
    return 2;
  }
  if (options.help) return std::fputs(kUsage, stdout) < 0 ? 1 : 0;
  if (options.list) {
    for (const Case& which : roda::conformance::all_cases()) std::printf("%-24s %s\n", which.name, which.summary);
    return 0;
  }
  const bool verbose = options.verbose;
  roda::plugins::Host host(
      [verbose](int, const char* component, const char* text) {
        if (verbose) std::fprintf(stderr, "[%s] %s\n", component, text);
      },
      roda_cpu_device());
  roda::plugins::Loader loader(*host.table());
  const roda::plugins::PluginRecord* plugin = open_plugin(&loader, options.plugin);
  if (plugin == nullptr || !plugin->usable || plugin->transport == nullptr) {
    std::fprintf(stderr, "%s: %s\n", options.plugin.c_str(),
                 plugin == nullptr ? "no plugin of that name"
                 : plugin->usable  ? "no transport"
                                   : plugin->reason.c_str());
    return 2;
  }
  const roda_device* device = nullptr;
  if (options.memory == "cuda") {
    loader.scan();
    device = loader.device_for(RODA_MEMORY_CUDA);
    if (device == nullptr) return report_no_device(loader);
  }
  return options.launched ? run_launched(options, *plugin, host.table())
                          : run_forked(options, *plugin, host.table(), device);
}

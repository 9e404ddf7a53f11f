// roda-conformance: runs the conformance kit against one transport.
#include <cstdio>
#include <optional>
#include <string>

#include "plugins/base/command_line.h"
#include "plugins/conformance/runner.h"
#include "plugins/devices/cpu/cpu_device.h"
#include "plugins/loader/host.h"
#include "plugins/loader/loader.h"

namespace {

using roda::conformance::Case;
using roda::conformance::Report;

struct CommandLine {
  std::string plugin;
  std::string only;
  std::string memory = "host";
  int ranks = 2;
  bool verbose = false;
  bool list = false;
  bool launched = false;
};

constexpr const char* kDescription =
    "Runs every case of the conformance kit against a transport plugin. Ranks are processes, or threads of one "
    "process\n"
    "if the transport reaches no further.\n"
    "Exit code: 0 when no case failed, 1 when one did, 2 when the plugin can't be used or the command line is wrong.";

// What the program is to end with, where it is: help was printed, or what is wrong.
std::optional<int> parse(int argc, char** argv, CommandLine* line) {
  using roda::conformance::World;
  CLI::App app(kDescription, "roda-conformance");
  app.set_version_flag("--version", "Roda " RODA_VERSION, "print the version");
  app.add_option("-p,--plugin", line->plugin,
                 "the plugin: its path, or a name that is looked for in HOROVOD_PLUGIN_PATH and beside the program")
      ->type_name("NAME_OR_PATH");
  app.add_option("-n,--ranks", line->ranks, "ranks to start")
      ->type_name("N")
      ->capture_default_str()
      ->check(roda::number_in(1, World::kMaxRanks));
  app.add_flag("--launched", line->launched,
               "every process is a rank, started on one host by a launcher that the plugin's bootstrap knows");
  roda::choose(
      app.add_option("-m,--memory", line->memory,
                     "memory of the tensors; cuda: on GPUs, through the device plugin of that name, rank N's on GPU N")
          ->capture_default_str(),
      {"host", "cuda"});
  app.add_option("-o,--only", line->only, "run only cases whose names begin with PREFIX")->type_name("PREFIX");
  app.add_option("-s,--seconds", roda::conformance::case_seconds(), "how long a case may take")
      ->type_name("SECONDS")
      ->capture_default_str()
      ->check(roda::number_in(1, 1e6));
  app.add_flag("-v,--verbose", line->verbose, "print what the plugin logs");
  app.add_flag("-l,--list", line->list, "print the cases, and run none");
  roda::add_examples(
      &app, {{"roda-conformance -p shm -n 4", "run every case with four ranks"},
             {"roda-conformance -p ./build/my_plugin.so -o death", "run the cases whose names begin with death"},
             {"roda-conformance --list", "print the names of the cases"}});
  return roda::parse(&app, argc, argv, [line] {
    if (!line->list && line->plugin.empty()) throw CLI::RequiredError("--plugin");
  });
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
int run_cases(const CommandLine& line, const roda::plugins::PluginRecord& plugin, int ranks, bool speaks, Run&& run) {
  if (speaks) std::printf("%s (%s), %d ranks\n", plugin.name.c_str(), plugin.description.c_str(), ranks);
  int counts[3] = {};
  for (const Case& which : roda::conformance::all_cases()) {
    if (std::string(which.name).rfind(line.only, 0) != 0) continue;
    const Report report = run(which);
    if (speaks) print(which, report);
    ++counts[report.verdict];
  }
  if (speaks) std::printf("%d passed, %d skipped, %d failed\n", counts[0], counts[1], counts[2]);
  return counts[2] == 0 && counts[0] > 0 ? 0 : 1;
}

int run_launched(const CommandLine& line, const roda::plugins::PluginRecord& plugin, const roda_host* host) {
  roda::conformance::LaunchedJob job(plugin.bootstrap, host);
  if (!job.error().empty()) {
    std::fprintf(stderr, "%s: %s\n", plugin.name.c_str(), job.error().c_str());
    return 2;
  }
  return run_cases(line, plugin, job.size(), job.rank() == 0,
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
  CommandLine line;
  if (const auto exit_code = parse(argc, argv, &line)) return *exit_code;
  if (line.list) {
    for (const Case& which : roda::conformance::all_cases()) std::printf("%-24s %s\n", which.name, which.summary);
    return 0;
  }
  const bool verbose = line.verbose;
  roda::plugins::Host host(
      [verbose](int, const char* component, const char* text) {
        if (verbose) std::fprintf(stderr, "[%s] %s\n", component, text);
      },
      roda_cpu_device());
  roda::plugins::Loader loader(*host.table());
  const roda::plugins::PluginRecord* plugin = open_plugin(&loader, line.plugin);
  if (plugin == nullptr || !plugin->usable || plugin->transport == nullptr) {
    std::fprintf(stderr, "%s: %s\n", line.plugin.c_str(),
                 plugin == nullptr ? "no plugin of that name"
                 : plugin->usable  ? "no transport"
                                   : plugin->reason.c_str());
    return 2;
  }
  const roda_device* device = nullptr;
  if (line.memory == "cuda") {
    loader.scan();
    device = loader.device_for(RODA_MEMORY_CUDA);
    if (device == nullptr) return report_no_device(loader);
  }
  if (line.launched) return run_launched(line, *plugin, host.table());
  return run_cases(line, *plugin, line.ranks, true, [&](const Case& which) {
    return roda::conformance::run_case(which, *plugin->transport, host.table(), line.ranks, device);
  });
}

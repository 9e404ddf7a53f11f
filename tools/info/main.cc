// roda-info: what this installation is, what it can use here and why not, and what would run.
#include <algorithm>
#include <cstdlib>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "bindings/c/roda.h"
#include "plugins/base/command_line.h"
#include "tools/common/names.h"
#include "tools/common/sizes.h"
#include "tools/info/explanation.h"
#include "tools/info/overview.h"
#include "tools/info/topology_file.h"
#include "tools/sim/explained.h"

namespace roda::tools {
namespace {

struct CommandLine {
  bool version = false;
  bool doctor = false;
  bool plugins = false;
  bool topology = false;
  bool env = false;
  bool json = false;
  int ranks = 0;                     // 0: not given
  std::string topology_file;         // empty: this machine
  std::string memory;                // empty: not given
  std::vector<std::string> explain;  // collective, size
};

using Describe = char* (*)(std::int32_t as_json);

struct Section {
  const char* key;
  const char* title;
  bool CommandLine::*wanted;
  Describe describe;
};

constexpr Section kSections[] = {
    {"plugins", "Plugins\n", &CommandLine::plugins, roda_describe_plugins},
    {"topology", "Topology\n", &CommandLine::topology, roda_describe_topology},
    {"knobs", "", &CommandLine::env, roda_describe_knobs},
};

// Takes over a text of the C API; empty when there is none.
std::string take(char* text) {
  const std::unique_ptr<char, void (*)(char*)> owner(text, roda_free_text);
  std::string result = text != nullptr ? text : "";
  while (!result.empty() && result.back() == '\n') result.pop_back();
  return result;
}

int print_sections(const CommandLine& options) {
  bool all = !options.version;
  for (const Section& section : kSections) all = all && !(options.*section.wanted);
  std::string json = "{\"version\": \"" + std::string(roda_version()) + "\"";
  if (all && !options.json) {
    std::cout << overview();
    return 0;
  }
  if (!options.json && options.version) std::cout << "Roda " << roda_version() << "\n";
  for (const Section& section : kSections) {
    if (!all && !(options.*section.wanted)) continue;
    const std::string text = take(section.describe(options.json ? 1 : 0));
    if (options.json) {
      json += ", \"" + std::string(section.key) + "\": " + (text.empty() ? "null" : text);
    } else {
      std::cout << "\n" << section.title << text << "\n";
    }
  }
  if (options.json) std::cout << json << "}\n";
  return 0;
}

roda_error no_error() {
  roda_error error{};
  error.struct_size = sizeof error;
  return error;
}

// The text, or the library's reason for having none.
int print_text(const std::string& text, const roda_error& error) {
  if (text.empty()) {
    std::cerr << "roda-info: " << error.message << "\n";
    return 1;
  }
  std::cout << text << "\n";
  return 0;
}

int print_topology_file(const CommandLine& options) {
  roda_error error = no_error();
  const auto path = find_topology(options.topology_file);
  if (!path) return 1;
  return print_text(take(roda_describe_topology_file(path->c_str(), options.json ? 1 : 0, &error)), error);
}

// What a laptop would do: a rank for each core.
int usual_ranks() { return std::max(2, static_cast<int>(std::thread::hardware_concurrency())); }

int print_explanation(const CommandLine& options) {
  const auto collective = parse_collective(options.explain.at(0));
  const auto bytes = parse_size(options.explain.at(1));
  if (!collective || !bytes) {
    std::cerr << "roda-info: " << (collective ? no_size(options.explain[1]) : no_collective(options.explain[0]))
              << "\n";
    return 2;
  }
  const char* told = std::getenv("RODA_TOPOLOGY_FILE");
  const std::string file = options.topology_file.empty() && told != nullptr ? told : options.topology_file;
  const auto path = file.empty() ? std::optional<std::string>() : find_topology(file);
  if (!file.empty() && !path) return 1;
  const char* memory = options.memory.empty() ? nullptr : options.memory.c_str();
  const int ranks = file.empty() && options.ranks == 0 ? usual_ranks() : options.ranks;
  roda_error error = no_error();
  const std::string text = take(
      roda_explain_memory(memory, path ? path->c_str() : nullptr, *collective, *bytes, ranks, /*as_json=*/1, &error));
  if (text.empty()) return print_text(text, error);
  nlohmann::json explained = nlohmann::json::parse(text);
  simtool::predict(&explained);
  if (!options.json) return print_text(in_words(explained), error);
  for (const char* input : {"levels", "network"}) explained.erase(input);
  return print_text(explained.dump(2), error);
}

int run(int argc, char** argv) {
  CommandLine options;
  CLI::App app(
      "Tells about this installation of Roda: usable transports, the machine, settings, and which algorithm would\n"
      "run. Without options: an overview of half a screen.",
      "roda-info");
  app.add_flag("--version", options.version, "the version");
  app.add_flag("--plugins", options.plugins, "all plugins that were found; of each that is not usable, why");
  app.add_flag(
      "--doctor", options.doctor,
      "a page on this machine: what works, what does not, and the line that mends it (`roda-info --doctor --help`\n"
      "prints its options)");
  CLI::Option* topology =
      app.add_option(
             "--topology,--topology-file", options.topology_file,
             "the machine that this process runs on, or the one that FILE describes: a path, or a name like dgx-h100;\n"
             "with --explain: the hosts to plan for (default: RODA_TOPOLOGY_FILE's, or one host);\n"
             "with --json: in the form that RODA_TOPOLOGY_FILE takes")
          ->expected(0, 1)
          ->type_name("[FILE]");
  app.add_flag("--env", options.env, "all HOROVOD_* settings: type, default, unit, value in force, help");
  CLI::Option* explain = app.add_option("--explain", options.explain,
                                        "the algorithm that would run for COLLECTIVE of SIZE, and why not another")
                             ->expected(2)
                             ->type_name("COLLECTIVE SIZE");
  app.add_option(
         "--np", options.ranks,
         "with --explain: number of ranks; more than a host has room for take more hosts of --topology (default: one\n"
         "for each core of this host; with --topology for each GPU, or else core, of one host)")
      ->type_name("N")
      ->check(number_in(1, 1 << 20))
      ->needs(explain);
  choose(app.add_option("--memory", options.memory,
                        "with --explain: where the tensors are (default: cuda where the hosts of --topology have GPUs "
                        "and a usable transport works on their memory, else host)"),
         {"host", "cuda"})
      ->needs(explain);
  app.add_flag("--json", options.json, "print JSON");
  add_examples(&app, {{"roda-info --plugins", "print which transports are usable here, and why others are not"},
                      {"roda-info --explain allreduce 64M --np 8", "print what would run for 64 MiB on eight ranks"},
                      {"roda-info --doctor", "print what works on this machine, and how to mend the rest"}});
  if (const auto ended = parse(&app, argc, argv, [] {})) return *ended;
  if (options.doctor) {  // the Python package's command roda-info takes this up before it gets here
    std::cerr << "roda-info: --doctor belongs to the Python package: python3 -m horovod.doctor\n";
    return 2;
  }
  options.topology = topology->count() > 0;
  if (!options.explain.empty()) return print_explanation(options);
  return options.topology_file.empty() ? print_sections(options) : print_topology_file(options);
}

}  // namespace
}  // namespace roda::tools

int main(int argc, char** argv) { return roda::tools::run(argc, argv); }

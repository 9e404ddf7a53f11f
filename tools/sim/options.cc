#include "tools/sim/options.h"

#include "bindings/c/roda.h"
#include "plugins/base/command_line.h"
#include "tools/common/names.h"
#include "tools/common/sizes.h"

namespace roda::simtool {
namespace {

constexpr const char* kDescription =
    "Simulates collectives on a described cluster and says how long they would take: a model's prediction, not a\n"
    "measurement. docs/notes/simulator.md has the model and the format of cluster files.";

struct Lists {
  std::string ranks = "8", sizes = "64M", collective = "allreduce", candidates, slice = "engine";
};

void read_ranks(const std::string& text, CommandLine* options) {
  options->ranks.clear();
  for (const std::string& name : tools::split_list(text)) {
    const auto size = tools::parse_size(name);
    if (!size || *size < 1 || *size > (1 << 24)) throw CLI::ValidationError("-n", "no number of ranks: " + name);
    options->ranks.push_back(static_cast<std::int32_t>(*size));
  }
  if (options->ranks.empty()) throw CLI::ValidationError("-n", "is empty");
}

void read_sizes(const std::string& text, CommandLine* options) {
  options->sizes.clear();
  for (const std::string& name : tools::split_list(text)) {
    const auto size = tools::parse_size(name);
    if (!size) throw CLI::ValidationError("-s", tools::no_size(name));
    options->sizes.push_back(static_cast<double>(*size));
  }
  if (options->sizes.empty()) throw CLI::ValidationError("-s", "is empty");
}

void resolve(const Lists& lists, CommandLine* options) {
  read_ranks(lists.ranks, options);
  read_sizes(lists.sizes, options);
  const auto collective = tools::parse_collective(lists.collective);
  if (!collective) throw CLI::ValidationError("-c", tools::no_collective(lists.collective));
  options->collective = static_cast<schedule::Collective>(*collective);
  options->candidates = tools::split_list(lists.candidates);
  if (lists.slice == "engine") return;
  if (lists.slice == "best") {
    options->slices = {1 << 20, 4 << 20, 16 << 20, 0};
    return;
  }
  const auto slice = lists.slice == "whole" ? std::optional<std::size_t>(0) : tools::parse_size(lists.slice);
  if (!slice) throw CLI::ValidationError("--slice", tools::no_size(lists.slice));
  options->slices = {static_cast<double>(*slice)};
}

void add_what(CLI::App* app, Lists* lists, CommandLine* options) {
  app->add_option("-t,--cluster", options->cluster, "cluster file (default: every rank on one switch)")
      ->type_name("FILE")
      ->check(CLI::ExistingFile.description(""));
  app->add_option("-n,--ranks,--gpus", lists->ranks, "numbers of ranks: 8,64,1024")
      ->type_name("NUMBERS")
      ->capture_default_str();
  app->add_option("-s,--sizes", lists->sizes, "sizes of a tensor: 4K,64M")->type_name("SIZES")->capture_default_str();
  app->add_option("-c,--collective", lists->collective, "the collective")->type_name("NAME")->capture_default_str();
  app->add_option("-a,--algorithms", lists->candidates,
                  "algorithms and plans: ring, double_binary_tree, ..., hierarchical, torus, or a plan with its\n"
                  "algorithms, hierarchical:ring/double_binary_tree/ring (reduce-scatter, allreduce, allgather),\n"
                  "each with a wire format where it has one, ordered/int8.\n"
                  "engine: what the engine would run (default: all that run over messages)")
      ->type_name("NAMES");
  app->add_option(
         "--slice", lists->slice,
         "size of the pieces that follow each other: engine (as the engine cuts), a size, whole (one piece), or best\n"
         "(the fastest of several sizes)")
      ->type_name("SIZE")
      ->capture_default_str();
  app->add_option("--in-flight", options->in_flight, "pieces under way on a rank (default: as many as in the engine)")
      ->type_name("N")
      ->check(number_in(1, 64));
}

void add_how(CLI::App* app, CommandLine* options) {
  app->add_option("--schedule", options->schedule, "simulate a schedule file, which is verified first")
      ->type_name("FILE")
      ->check(CLI::ExistingFile.description(""));
  app->add_option("--write-schedule", options->write, "print the schedule file of an algorithm for -n ranks")
      ->type_name("NAME");
  app->add_option("--plot", options->plot, "draw the times into FILE: an HTML page where its name ends so, else an SVG")
      ->type_name("FILE");
  app->add_option("--most-steps", options->most_steps, "refuse a simulation of more steps")
      ->type_name("N")
      ->default_str("150000000");
  choose(
      app->add_option("--train", options->train,
                      "simulate a step of data-parallel training on -n GPUs, with allreduces as the engine runs them"),
      {"resnet50", "vgg16", "gpt2", "llama-7b"});
  app->add_option("--rate", options->rate,
                  "with --train: images or tokens a second of one GPU (default: published figures)")
      ->type_name("X")
      ->check(number_in(1e-9, 1e18));
  app->add_option("--batch", options->batch, "with --train: images or tokens of one GPU in a step")
      ->type_name("N")
      ->check(number_in(1e-9, 1e18));
  app->add_flag(
      "--control", options->control,
      "instead of simulating: count the messages with which -n ranks form a job and agree on a step, by control plane");
  app->add_flag("--path", options->path, "print the critical path: the steps and ranks that decide about the time");
  app->add_flag("--json", options->json, "one JSON object per line");
}

}  // namespace

std::optional<CommandLine> parse_options(int argc, char** argv, int* exit_code) {
  CommandLine options;
  Lists lists;
  CLI::App app(kDescription, "roda-sim");
  app.set_version_flag("--version", std::string("Roda ") + roda_version(), "print the version");
  add_what(&app, &lists, &options);
  add_how(&app, &options);
  add_examples(&app,
               {{"roda-sim -n 64,1024 -s 64M", "allreduces of 64 MiB on one switch, every algorithm"},
                {"roda-sim -t cluster.json -n 256 --train gpt2", "a training step on a cluster that a file describes"},
                {"roda-sim -n 16 -a ring --path", "which steps of a ring decide about the time"}});
  const auto ended = parse(&app, argc, argv, [&] { resolve(lists, &options); });
  *exit_code = ended.value_or(0);
  return ended ? std::nullopt : std::optional(options);
}

}  // namespace roda::simtool

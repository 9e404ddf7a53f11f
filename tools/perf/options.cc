#include "tools/perf/options.h"

#include <map>

#include "bindings/c/roda.h"
#include "plugins/base/command_line.h"
#include "tools/common/names.h"
#include "tools/common/sizes.h"

namespace roda::perf {

namespace {

constexpr const char* kDescription =
    "Measures Roda's collectives: times, algorithm and bus bandwidth as nccl-tests defines them, results checked.\n"
    "Starts the ranks itself; under horovodrun, and with --launched, it is one rank of that job.";

struct Lists {
  std::string collectives = "allreduce", dtypes = "float32", ops = "sum", transports, algorithms, sizes;
};

auto unknown(const std::string& kind) {
  return [kind](const std::string& name) { return "no " + kind + ": " + name; };
}

// Fills `values` from a comma-separated list; throws what CLI11 reports.
template <typename Parse, typename Refuse>
void read_list(const char* option, const std::string& text, Parse parse, Refuse refuse,
               std::vector<std::int32_t>* values) {
  for (const std::string& name : tools::split_list(text)) {
    const auto value = parse(name);
    if (!value) throw CLI::ValidationError(option, refuse(name));
    values->push_back(*value);
  }
  if (values->empty()) throw CLI::ValidationError(option, "is empty");
}

std::vector<std::string> names_or_default(const std::string& text) {
  std::vector<std::string> names = tools::split_list(text);
  if (names.empty()) names.emplace_back();
  return names;
}

void resolve(const Lists& lists, CommandLine* options) {
  if (lists.collectives == "all") {
    options->collectives = tools::measurable_collectives();
  } else {
    read_list("-c", lists.collectives, tools::parse_collective, tools::no_collective, &options->collectives);
  }
  read_list("-d", lists.dtypes, tools::parse_dtype, unknown("dtype"), &options->dtypes);
  read_list("-o", lists.ops, tools::parse_reduce_op, unknown("op"), &options->ops);
  for (const std::string& text : tools::split_list(lists.sizes)) {
    const auto size = tools::parse_size(text);
    if (!size || *size == 0) throw CLI::ValidationError("-s", tools::no_size(text));
    options->sizes.push_back(*size);
  }
  options->transports = names_or_default(lists.transports);
  options->algorithms = names_or_default(lists.algorithms);
  if (options->control && lists.transports.empty()) options->transports = {"tcp"};
  if (options->control && options->transports != std::vector<std::string>{"tcp"}) {
    throw CLI::ValidationError("--control", "counts jobs over tcp; leave -t out");
  }
  if (options->min_bytes > options->max_bytes) throw CLI::ValidationError("-b", "is larger than -e");
}

void add_size(CLI::App* app, const char* name, std::size_t* bytes, const char* help) {
  app->add_option_function<std::string>(
         name,
         [bytes, name](const std::string& text) {
           const auto size = tools::parse_size(text);
           if (!size || *size == 0) throw CLI::ValidationError(name, tools::no_size(text));
           *bytes = *size;
         },
         help)
      ->type_name("SIZE")
      ->default_str(tools::typed_size(*bytes));
}

std::string names_of_collectives() {
  std::string names;
  for (const std::int32_t collective : tools::measurable_collectives()) {
    names += tools::collective_text(collective) + ", ";
  }
  return names;
}

void add_what(CLI::App* app, Lists* lists, CommandLine* options) {
  app->add_option("-c,--collectives", lists->collectives, names_of_collectives() + "or all")
      ->type_name("NAMES")
      ->capture_default_str();
  add_size(app, "-b,--min-bytes", &options->min_bytes, "smallest size");
  add_size(app, "-e,--max-bytes", &options->max_bytes, "largest size");
  app->add_option("-f,--factor", options->factor, "how many times larger each size is than the one before")
      ->type_name("X")
      ->capture_default_str()
      ->check(number_in(1.01, 1e6));
  app->add_option("-s,--sizes", lists->sizes, "list of sizes, in place of -b, -e and -f: 4,64K,1M")->type_name("SIZES");
  app->add_option("-d,--dtypes", lists->dtypes, "dtypes, as numpy and ml_dtypes name them")
      ->type_name("NAMES")
      ->capture_default_str();
  app->add_option("-o,--ops", lists->ops, "sum, average, adasum, min, max, product")
      ->type_name("NAMES")
      ->capture_default_str();
  app->add_option("-n,--ranks", options->ranks, "processes to start")
      ->type_name("N")
      ->capture_default_str()
      ->check(number_in(1, 1024));
  app->add_option("--hosts", options->hosts,
                  "pretended hosts: the ranks behave as if on so many, equally many ranks on each")
      ->type_name("N")
      ->capture_default_str()
      ->check(number_in(1, 1024));
  app->add_flag("--launched", options->launched,
                "this process is one rank; a launcher (mpirun, say) started the others");
  app->add_option("-t,--transports", lists->transports,
                  "values of HOROVOD_CPU_OPERATIONS; each is measured in a job of its own: shm,tcp")
      ->type_name("NAMES");
  app->add_option("-a,--algorithms", lists->algorithms,
                  "names for HOROVOD_SELECT; each is measured in a job of its own")
      ->type_name("NAMES");
}

void add_how(CLI::App* app, CommandLine* options) {
  const std::map<std::string, Place> places = {{"in", Place::kIn}, {"out", Place::kOut}, {"both", Place::kBoth}};
  app->add_option("-w,--warmup", options->warmup, "operations before the timed ones (default: by size)")
      ->type_name("N")
      ->check(number_in(0, 1e9));
  app->add_option("--iterations", options->iterations, "timed operations (default: by size)")
      ->type_name("N")
      ->check(number_in(1, 1e9));
  const auto place = [options, places](const std::string& name) { options->place = places.at(name); };
  choose(app->add_option_function<std::string>("-p,--place", place,
                                               "in: results overwrite the input; out: they go beside it (default: in)"),
         {"in", "out", "both"});
  app->add_flag("!--no-check", options->check, "do not check results");
  choose(
      app->add_option("--model", options->model,
                      "instead of a sweep: times of a training step's gradients, submitted one by one and as a group, "
                      "and of one call with as many bytes"),
      {"resnet50", "gpt2"});
  app->add_option("--idle", options->idle_seconds,
                  "instead of a sweep: CPU time and context switches of an idle initialised process in SECONDS")
      ->type_name("SECONDS")
      ->check(number_in(0.1, 3600));
  app->add_flag("--control", options->control,
                "instead of a sweep: messages and processor time of forming the job and of agreeing on a step's 161\n"
                "tensors, beside the messages that roda-sim --control counts");
  app->add_flag("--json", options->json, "one JSON object per line");
  app->add_option("--job", options->job)->group("");
}

}  // namespace

std::vector<Job> jobs(const CommandLine& options) {
  std::vector<Job> result;
  for (const std::string& transport : options.transports) {
    for (const std::string& algorithm : options.algorithms) result.push_back({transport, algorithm});
  }
  return result;
}

std::optional<CommandLine> parse_options(int argc, char** argv, int* exit_code) {
  CommandLine options;
  Lists lists;
  CLI::App app(kDescription, "roda-perf");
  app.set_version_flag("--version", std::string("Roda ") + roda_version(), "print the version");
  add_what(&app, &lists, &options);
  add_how(&app, &options);
  add_examples(&app, {{"roda-perf -n 4", "allreduce of four ranks on this machine, 4 bytes to 64 MiB"},
                      {"roda-perf -n 2 -t shm,tcp -s 1M", "1 MiB over one transport, then over the other"},
                      {"mpirun -n 4 -H node1:2,node2:2 roda-perf --launched", "ranks that mpirun starts"}});
  const auto ended = parse(&app, argc, argv, [&] { resolve(lists, &options); });
  *exit_code = ended.value_or(0);
  return ended ? std::nullopt : std::optional(options);
}

}  // namespace roda::perf

// roda-perf: times, bandwidths and checked results of Roda's collectives.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "algorithms/schedule/schedule.h"
#include "tools/common/names.h"
#include "tools/perf/launch.h"
#include "tools/perf/measure.h"

namespace roda::perf {
namespace {

bool has_algorithm(std::int32_t collective, const std::string& name) {
  return name == "native" || schedule::find_algorithm(static_cast<schedule::Collective>(collective), name) != nullptr;
}

// What is wrong with the options taken together; empty: nothing. Told once, before any rank starts.
std::string contradiction(const CommandLine& options) {
  for (const std::string& algorithm : options.algorithms) {
    const bool is_known =
        algorithm.empty() || std::any_of(options.collectives.begin(), options.collectives.end(),
                                         [&](std::int32_t collective) { return has_algorithm(collective, algorithm); });
    if (!is_known) return "no chosen collective has an algorithm " + algorithm;
  }
  if (options.ranks % options.hosts != 0) return "-n must be a multiple of --hosts";
  const bool is_rank = options.launched || std::getenv("HOROVOD_RANK") != nullptr;
  const bool is_launchers = is_rank && !options.job;
  return is_launchers && jobs(options).size() > 1 ? "under a launcher there is one job: give one -t and one -a" : "";
}

// Puts the job's transport and algorithm where the engine reads them, and leaves out the collectives that do not have
// the algorithm.
void apply(const Job& job, CommandLine* options) {
  if (!job.transport.empty()) setenv("HOROVOD_CPU_OPERATIONS", job.transport.c_str(), 1);
  if (job.algorithm.empty()) return;
  std::string rules;
  std::vector<std::int32_t> kept;
  for (const std::int32_t collective : options->collectives) {
    if (!has_algorithm(collective, job.algorithm)) continue;
    kept.push_back(collective);
    rules += schedule::collective_name(static_cast<schedule::Collective>(collective));
    rules += " = */" + job.algorithm + ";";
  }
  options->collectives = kept;
  setenv("HOROVOD_SELECT", rules.c_str(), 1);
}

int run_rank(CommandLine options, const Job& job) {
  apply(job, &options);
  const Session session;
  Report report(options.json, session.rank() != 0);
  bool right = true;
  if (options.control) {
    right = measure_control(session, options, &report);
  } else if (options.idle_seconds > 0) {
    right = measure_idle(session, options, &report);
  } else if (!options.model.empty()) {
    right = measure_model(session, options, &report);
  } else {
    right = measure_sweep(session, options, &report);
  }
  return right ? 0 : 1;
}

int run_jobs(const CommandLine& options, const std::vector<std::string>& arguments) {
  int result = 0;
  for (std::size_t job = 0; job < jobs(options).size(); ++job) {
    std::vector<std::string> with_job = arguments;
    with_job.push_back("--job=" + std::to_string(job));
    roda_traffic store{};
    store.struct_size = sizeof store;
    const int code = run_ranks(options, with_job, &store);
    Report report(options.json, code != 0);
    if (options.control) report_forming(options, store, &report);
    if (result == 0) result = code;
  }
  return result;
}

int run(int argc, char** argv) {
  int exit_code = 0;
  const auto options = parse_options(argc, argv, &exit_code);
  if (!options) return exit_code;
  if (const std::string wrong = contradiction(*options); !wrong.empty()) {
    std::fprintf(stderr, "roda-perf: %s\n", wrong.c_str());
    return 2;
  }
  try {
    if (options->job) {
      end_with_parent();
      return run_rank(*options, jobs(*options).at(static_cast<std::size_t>(*options->job)));
    }
    if (!options->launched && std::getenv("HOROVOD_RANK") == nullptr)
      return run_jobs(*options, {argv + 1, argv + argc});
    return run_rank(*options, jobs(*options).front());
  } catch (const Failure& failure) {
    std::fprintf(stderr, "roda-perf: %s\n", failure.what());
    return 1;
  }
}

}  // namespace
}  // namespace roda::perf

int main(int argc, char** argv) { return roda::perf::run(argc, argv); }

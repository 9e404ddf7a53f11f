// roda-perf: times, bandwidths and checked results of Roda's collectives.
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

// Puts the job's transport and algorithm where the engine reads them, and leaves out the collectives that do not have
// the algorithm.
void apply(const Job& job, Options* options) {
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
  if (kept.empty()) throw Failure("no chosen collective has an algorithm " + job.algorithm);
  options->collectives = kept;
  setenv("HOROVOD_SELECT", rules.c_str(), 1);
}

int run_rank(Options options, const Job& job) {
  apply(job, &options);
  const Session session;
  Report report(options.json, session.rank() != 0);
  bool right = true;
  if (options.idle_seconds > 0) {
    right = measure_idle(session, options, &report);
  } else if (!options.model.empty()) {
    right = measure_model(session, options, &report);
  } else {
    right = measure_sweep(session, options, &report);
  }
  return right ? 0 : 1;
}

int run_jobs(const Options& options, const std::vector<std::string>& arguments) {
  int result = 0;
  for (std::size_t job = 0; job < jobs(options).size(); ++job) {
    std::vector<std::string> with_job = arguments;
    with_job.push_back("--job=" + std::to_string(job));
    const int code = run_ranks(options.ranks, with_job);
    if (result == 0) result = code;
  }
  return result;
}

int run(int argc, char** argv) {
  int exit_code = 0;
  const auto options = parse_options(argc, argv, &exit_code);
  if (!options) return exit_code;
  try {
    if (options->job) {
      end_with_parent();
      return run_rank(*options, jobs(*options).at(static_cast<std::size_t>(*options->job)));
    }
    if (!options->launched && std::getenv("HOROVOD_RANK") == nullptr)
      return run_jobs(*options, {argv + 1, argv + argc});
    if (jobs(*options).size() > 1) throw Failure("under a launcher there is one job: give one -t and one -a");
    return run_rank(*options, jobs(*options).front());
  } catch (const Failure& failure) {
    std::fprintf(stderr, "roda-perf: %s\n", failure.what());
    return 1;
  }
}

}  // namespace
}  // namespace roda::perf

int main(int argc, char** argv) { return roda::perf::run(argc, argv); }

#include <sys/resource.h>

#include <chrono>
#include <thread>

#include "tools/perf/measure.h"

namespace roda::perf {

namespace {

struct Usage {
  double cpu_seconds, switches;
};

// The usage of the whole process, all its threads.
Usage usage() {
  rusage now{};
  getrusage(RUSAGE_SELF, &now);
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) * 1e-6;
  };
  return {seconds(now.ru_utime) + seconds(now.ru_stime), static_cast<double>(now.ru_nvcsw + now.ru_nivcsw)};
}

}  // namespace

bool measure_idle(const Session& session, const CommandLine& options, Report* report) {
  // The figure is about a process that has worked before, with everything connected.
  Workload workload(session, {RODA_ALLREDUCE, RODA_FLOAT32, RODA_SUM, 1u << 20, true});
  for (int i = 0; i < 10; ++i) workload.run();
  std::this_thread::sleep_for(std::chrono::milliseconds(200));  // helpers go to sleep
  const Usage before = usage();
  std::this_thread::sleep_for(std::chrono::duration<double>(options.idle_seconds));
  const Usage after = usage();
  const double cpu = max_over_ranks((after.cpu_seconds - before.cpu_seconds) / options.idle_seconds);
  const double switches = max_over_ranks((after.switches - before.switches) / options.idle_seconds);
  report->note("idle CPU, worst rank", 100 * cpu, "% of a core");
  report->note("idle context switches, worst rank", switches, "per second");
  return true;
}

}  // namespace roda::perf

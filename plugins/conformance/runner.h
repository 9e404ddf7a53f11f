// Runs cases: forks the ranks of each, watches them, and judges what they report.
#pragma once

#include <roda/abi/device.h>
#include <roda/abi/transport.h>

#include <string>
#include <vector>

#include "plugins/conformance/kit.h"

namespace roda::conformance {

struct Report {
  enum Verdict { kPassed, kSkipped, kFailed } verdict = kPassed;
  std::string text;  // why it was skipped or failed; names the ranks
  std::int64_t milliseconds = 0;
};

// Each case runs in processes of its own, so that a crash in one is a failed case and no more. Ranks are processes, or
// threads of one process when the transport reaches no further. With a device the data lie on it, each rank's on the
// one of its own number. Not thread-safe: it forks.
Report run_case(const Case& which, const roda_transport& table, const roda_host* host, int ranks,
                const roda_device* device = nullptr);

// The parts of run_case that another way of starting ranks shares: one rank's run, and the verdict on all of them.
void run_rank(const Case& which, const roda_transport& table, const roda_host* host, World* world, int rank,
              const roda_device* device = nullptr);
Report judge(const World& world, bool kills);

}  // namespace roda::conformance

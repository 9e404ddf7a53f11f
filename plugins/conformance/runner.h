// Runs cases: forks the ranks of each, watches them, and judges what they report.
#pragma once

#include <roda/abi/bootstrap.h>
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

// Runs cases among processes that a launcher started (mpirun, say), one rank each, all on one host.
//
// For transports that only reach what their own launcher started. The processes live through all cases, so a crash ends
// the run, and cases that kill a rank are skipped. One thread at a time; everything but the getters is collective.
class LaunchedJob {
 public:
  // The bootstrap: null where the plugin has none, which is an error.
  LaunchedJob(const roda_bootstrap* bootstrap, const roda_host* host);
  ~LaunchedJob() {
    if (job_ != nullptr) bootstrap_->finish(job_);
  }
  LaunchedJob(const LaunchedJob&) = delete;
  LaunchedJob& operator=(const LaunchedJob&) = delete;

  // Why it could not start; "" when it did.
  const std::string& error() const { return error_; }
  int rank() const { return rank_; }
  int size() const { return size_; }

  // The same on every rank.
  Report run_case(const Case& which, const roda_transport& table, const roda_host* host);

 private:
  // Memory that all ranks see, to be destroyed by each; null on all ranks if one of them can't.
  World* meet();
  // True when every rank said yes.
  bool agree(bool mine) {
    roda_error error = make_error();
    std::int32_t all = 0;
    return bootstrap_->agree(job_, mine ? 1 : 0, &all, &error) == RODA_OK && all != 0;
  }

  const roda_bootstrap* bootstrap_;
  roda_job* job_ = nullptr;
  std::string error_;
  int rank_ = 0;
  int size_ = 0;
};

}  // namespace roda::conformance

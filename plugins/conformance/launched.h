// Runs cases among processes that a launcher started (mpirun, say), one rank each, all on one host.
//
// For transports that only reach what their own launcher started. The processes live through all cases, so a crash ends
// the run, and cases that kill a rank are skipped. roda-transport-perf meets so, too.
#pragma once

#include <roda/abi/bootstrap.h>

#include <string>

#include "plugins/conformance/runner.h"

namespace roda::conformance {

// One thread at a time; everything but the getters is collective.
class LaunchedJob {
 public:
  LaunchedJob(const roda_bootstrap& bootstrap, const roda_host* host);
  ~LaunchedJob();
  LaunchedJob(const LaunchedJob&) = delete;
  LaunchedJob& operator=(const LaunchedJob&) = delete;

  // Why it could not start; "" when it did.
  const std::string& error() const { return error_; }
  int rank() const { return rank_; }
  int size() const { return size_; }

  // The same on every rank.
  Report run_case(const Case& which, const roda_transport& table, const roda_host* host);

  // Memory that all ranks see, to be destroyed by each; null on all ranks if one of them can't.
  World* meet();
  // True when every rank said yes.
  bool agree(bool mine);

 private:
  const roda_bootstrap& bootstrap_;
  roda_job* job_ = nullptr;
  std::string error_;
  int rank_ = 0;
  int size_ = 0;
};

}  // namespace roda::conformance

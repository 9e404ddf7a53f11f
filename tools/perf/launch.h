// Starts the ranks of a job on this host: this program again, with a rendezvous server of its own.
#pragma once

#include <string>
#include <vector>

#include "bindings/c/roda.h"
#include "tools/perf/options.h"

namespace roda::perf {

// Runs `arguments` (this program's, argv[0] left out) on as many processes as `options` say and waits for all. When one
// fails, the others are ended. Returns 0, or the exit code of the first that failed; *store: what went through the
// rendezvous. Call before any other thread exists.
int run_ranks(const CommandLine& options, const std::vector<std::string>& arguments, roda_traffic* store);

// In a rank: ends with its launcher.
void end_with_parent();

}  // namespace roda::perf

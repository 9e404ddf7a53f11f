// Starts the ranks of a job on this host: this program again, with a rendezvous server of its own.
#pragma once

#include <string>
#include <vector>

namespace roda::perf {

// Runs `arguments` (this program's, argv[0] left out) on `ranks` processes and waits for all. When one fails, the
// others are ended. Returns 0, or the exit code of the first that failed. Call before any other thread exists.
int run_ranks(int ranks, const std::vector<std::string>& arguments);

// In a rank: ends with its launcher.
void end_with_parent();

}  // namespace roda::perf

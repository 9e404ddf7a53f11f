// What the peers' programs share: the command line, the schedule of measurement and the line that is printed.
//
// usage: PROGRAM --sizes=4096,1048576 [--warmup=N] [--iterations=N]
#pragma once

#include <cstddef>
#include <functional>
#include <vector>

namespace roda::peers {

struct Request {
  std::vector<std::size_t> sizes;  // bytes
  int warmup = -1;
  int iterations = -1;
};

// Ends the program on a wrong command line.
Request parse_request(int argc, char** argv);

// Sums `count` floats over the ranks, in place.
using Allreduce = std::function<void(float* data, std::size_t count)>;

// kNone: data only travel, there is no sum to check.
enum class Result { kSum, kNone };

// Checks and times every size as roda-perf does, in place, float32; rank 0 prints a JSON line for each. Returns the
// program's exit code.
int measure(const char* peer, const Request& request, int rank, int ranks, const Allreduce& allreduce,
            Result result = Result::kSum);

}  // namespace roda::peers

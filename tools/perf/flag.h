// How far two cores are from one another: a flag's round trip between them.
#pragma once

#include "tools/perf/session.h"

namespace roda::perf {

struct Cores {
  const char* name = "-";  // "near": they share a cache; "far"; "same": it is one core; "-": not known
  double flag_us = 0;      // near and far: microseconds
};

// Finds out which cores ranks 0 and 1 run on now; not known for one rank or several hosts, or where threads can't be
// bound. Collective; the result is right on rank 0. Takes a few milliseconds where the cores are free.
Cores find_cores(const Session& session);

}  // namespace roda::perf

// The time of a transport's native collectives.
#pragma once

#include "plugins/conformance/perf/measure.h"
#include "plugins/conformance/perf/talk.h"

namespace roda::conformance::perf {

// Every one that the transport supports for float32 sums on the host, one at a time, in equal parts where it has parts;
// `sizes` are bytes of the whole tensor. All ranks of the group. Rank 0 prints a line per collective and size.
void measure_collectives(Env& env, Talk& talk, Group& group, const Options& options);

}  // namespace roda::conformance::perf

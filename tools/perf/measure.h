// What a rank measures. Every function is collective: all ranks call it with equal options. True when all checked
// results were right, on every rank.
#pragma once

#include "tools/perf/options.h"
#include "tools/perf/report.h"
#include "tools/perf/session.h"

namespace roda::perf {

// Every collective, dtype, op, place and size.
bool measure_sweep(const Session& session, const Options& options, Report* report);

// A training step's gradients: one by one, as a group, and one call of the same bytes, in turn.
bool measure_model(const Session& session, const Options& options, Report* report);

// CPU time and context switches while nothing is submitted: the worst over the ranks.
bool measure_idle(const Session& session, const Options& options, Report* report);

// The largest of every rank's value.
double max_over_ranks(double value);

}  // namespace roda::perf

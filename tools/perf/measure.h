// What a rank measures. Every function is collective: all ranks call it with equal options. True when all checked
// results were right, on every rank.
#pragma once

#include <vector>

#include "tools/perf/options.h"
#include "tools/perf/report.h"
#include "tools/perf/session.h"

namespace roda::perf {

// Every collective, dtype, op, place and size.
bool measure_sweep(const Session& session, const CommandLine& options, Report* report);

// A training step's gradients: one by one, as a group, and one call of the same bytes, in turn.
bool measure_model(const Session& session, const CommandLine& options, Report* report);

// CPU time and context switches while nothing is submitted: the worst over the ranks.
bool measure_idle(const Session& session, const CommandLine& options, Report* report);

// What forming the job and agreeing on a step's tensors take, beside what is predicted. The second: where the job was
// started, when it has ended.
bool measure_control(const Session& session, const CommandLine& options, Report* report);
void report_forming(const CommandLine& options, const roda_traffic& store, Report* report);

// Every rank's values, combined by a roda_reduce_op.
std::vector<double> over_ranks(std::vector<double> values, std::int32_t op);
inline double max_over_ranks(double value) { return over_ranks({value}, RODA_MAX).front(); }

// Microseconds of processor time that all threads of this process have had.
double processor_us();

}  // namespace roda::perf

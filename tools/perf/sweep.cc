#include <algorithm>
#include <cmath>
#include <functional>

#include "tools/common/names.h"
#include "tools/perf/flag.h"
#include "tools/perf/measure.h"

namespace roda::perf {

namespace {

Row measure_case(const Session& session, const CommandLine& options, const Case& what) {
  Workload workload(session, what);
  Row row{what, "", workload.bytes(), workload.count(), session.size(), {}, options.check, true, what_runs(what), {}};
  if (options.check) row.right = max_over_ranks(workload.check() ? 0 : 1) == 0;
  workload.fill();
  const Repeats repeats = repeats_for(what.bytes, options.warmup, options.iterations);
  for (int i = 0; i < repeats.warmup; ++i) workload.run();
  std::vector<double> times;
  times.reserve(static_cast<std::size_t>(repeats.timed));
  for (int i = 0; i < repeats.timed; ++i) {
    const double start = now_us();
    workload.run();
    times.push_back(now_us() - start);
  }
  row.times = summarise(std::move(times));
  row.cores = find_cores(session);
  return row;
}

std::vector<std::size_t> sizes_of(const CommandLine& options, std::int32_t collective) {
  if (collective == RODA_BARRIER) return {0};
  if (!options.sizes.empty()) return options.sizes;
  std::vector<std::size_t> sizes;
  for (std::size_t bytes = options.min_bytes; bytes <= options.max_bytes;) {
    sizes.push_back(bytes);
    bytes = std::max(bytes + 1, static_cast<std::size_t>(std::llround(static_cast<double>(bytes) * options.factor)));
  }
  return sizes;
}

std::vector<bool> places_of(const CommandLine& options, std::int32_t collective) {
  if (!has_both_places(collective)) return {collective == RODA_BROADCAST || collective == RODA_BARRIER};
  if (options.place == Place::kBoth) return {false, true};
  return {options.place == Place::kIn};
}

// Horovod's reducescatter knows two ops, and the average of truth values means nothing.
bool is_defined(std::int32_t collective, std::int32_t dtype, std::int32_t op) {
  if (!reduces(collective)) return true;
  if (roda_collective_is(collective, RODA_SUMS_ONLY) != 0 && op != RODA_SUM && op != RODA_AVERAGE) return false;
  const std::uint32_t needs = op == RODA_ADASUM    ? RODA_FLOAT | RODA_REDUCES
                              : op == RODA_AVERAGE ? RODA_SCALES
                                                   : RODA_REDUCES;
  return roda_dtype_is(dtype, needs) != 0;
}

// Combinations that differ in what the collective reads: barriers have no dtype, gathers no op.
void for_each_kind(const CommandLine& options, const std::function<void(const Case&)>& visit) {
  for (const std::int32_t collective : options.collectives) {
    const std::size_t dtypes = collective == RODA_BARRIER ? 1 : options.dtypes.size();
    const std::size_t ops = reduces(collective) ? options.ops.size() : 1;
    for (std::size_t d = 0; d < dtypes; ++d) {
      for (std::size_t o = 0; o < ops; ++o) {
        if (!is_defined(collective, options.dtypes[d], options.ops[o])) continue;
        for (const bool in_place : places_of(options, collective)) {
          visit({collective, options.dtypes[d], reduces(collective) ? options.ops[o] : RODA_SUM, 0, in_place});
        }
      }
    }
  }
}

}  // namespace

std::vector<double> over_ranks(std::vector<double> values, std::int32_t reduction) {
  const auto shape = static_cast<std::int64_t>(values.size());
  const std::string name = "perf.over_ranks." + std::to_string(reduction) + "." + std::to_string(shape);
  roda_op op = Session::make_op(RODA_ALLREDUCE, name.c_str());
  op.dtype = RODA_FLOAT64;
  op.op = reduction;
  op.ndim = 1;
  op.shape = &shape;
  op.input = op.output = values.data();
  op.flags = RODA_OP_WILL_WAIT;
  Session::submit(&op, 1).wait();
  return values;
}

bool measure_sweep(const Session& session, const CommandLine& options, Report* report) {
  bool all_right = true;
  for_each_kind(options, [&](Case what) {
    for (const std::size_t bytes : sizes_of(options, what.collective)) {
      what.bytes = bytes;
      const Row row = measure_case(session, options, what);
      report->add(row);
      all_right = all_right && row.right;
    }
  });
  return all_right;
}

}  // namespace roda::perf

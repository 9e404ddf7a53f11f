#include "tools/perf/report.h"

#include <cstdio>

#include "tools/common/names.h"
#include "tools/common/sizes.h"
#include "tools/sim/model/simulate.h"

namespace roda::perf {

namespace {

// GB/s, 10^9 bytes; 0 for what moves nothing.
double algorithm_bandwidth(const Row& row) {
  return row.times.median > 0 ? static_cast<double>(row.bytes) / row.times.median / 1e3 : 0;
}

double bus_factor(const Row& row) {
  return row.ranks < 2 ? 1 : sim::bus_factor(static_cast<schedule::Collective>(row.what.collective), row.ranks);
}

const char* verdict(const Row& row) { return !row.checked ? "-" : row.right ? "ok" : "WRONG"; }

void print_json(const Row& row, const std::string& name, const std::string& op) {
  const double bandwidth = algorithm_bandwidth(row);
  std::printf(
      "{\"collective\": \"%s\", \"runs\": \"%s\", \"ranks\": %d, \"dtype\": \"%s\", \"op\": \"%s\", \"in_place\": %s, "
      "\"bytes\": %zu, \"count\": %zu, \"median_us\": %.3f, \"p95_us\": %.3f, \"min_us\": %.3f, \"mean_us\": %.3f, "
      "\"samples\": %d, \"algbw_GBps\": %.5f, \"busbw_GBps\": %.5f, \"flag_us\": %.3f, \"cores\": \"%s\", \"check\": "
      "\"%s\"}\n",
      name.c_str(), row.runs.c_str(), row.ranks, roda_dtype_name(row.what.dtype), op.c_str(),
      row.what.in_place ? "true" : "false", row.bytes, row.count, row.times.median, row.times.p95, row.times.min,
      row.times.mean, row.times.samples, bandwidth, bandwidth * bus_factor(row), row.cores.flag_us, row.cores.name,
      verdict(row));
}

void print_line(const Row& row, const std::string& name, const std::string& op) {
  const double bandwidth = algorithm_bandwidth(row);
  std::printf("%-15s %10s %12zu %9s %8s %5s %12.2f %12.2f %9.3f %9.3f %5s %7.2f %6s  %s\n", name.c_str(),
              tools::format_size(row.bytes).c_str(), row.count, roda_dtype_name(row.what.dtype), op.c_str(),
              row.what.in_place ? "in" : "out", row.times.median, row.times.p95, bandwidth, bandwidth * bus_factor(row),
              row.cores.name, row.cores.flag_us, verdict(row), row.runs.c_str());
}

}  // namespace

void Report::print_header() {
  if (header_printed_ || as_json_) return;
  header_printed_ = true;
  std::printf("%-15s %10s %12s %9s %8s %5s %12s %12s %9s %9s %5s %7s %6s  %s\n", "# collective", "size", "count",
              "dtype", "op", "place", "median us", "p95 us", "algbw", "busbw", "cores", "flag us", "check", "runs");
}

void Report::add(const Row& row) {
  if (silent_) return;
  print_header();
  const std::string name = row.label.empty() ? tools::collective_text(row.what.collective) : row.label;
  const std::string op = reduces(row.what.collective) ? roda_reduce_op_name(row.what.op) : "-";
  as_json_ ? print_json(row, name, op) : print_line(row, name, op);
  std::fflush(stdout);
}

void Report::note(const std::string& name, double value, const std::string& unit) {
  if (silent_) return;
  if (as_json_) {
    std::printf("{\"figure\": \"%s\", \"value\": %.6g, \"unit\": \"%s\"}\n", name.c_str(), value, unit.c_str());
  } else {
    std::printf("# %-40s %12.4g %s\n", name.c_str(), value, unit.c_str());
  }
  std::fflush(stdout);
}

}  // namespace roda::perf

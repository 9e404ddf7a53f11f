// Rows of results, as a table or as JSON lines. Printed by rank 0 only.
#pragma once

#include <string>

#include "tools/perf/flag.h"
#include "tools/perf/options.h"
#include "tools/perf/statistics.h"
#include "tools/perf/workload.h"

namespace roda::perf {

struct Row {
  Case what;
  std::string label;  // in place of the collective's name, where it isn't one
  std::size_t bytes = 0;
  std::size_t count = 0;
  int ranks = 1;
  Statistics times;
  bool checked = false;
  bool right = true;
  std::string runs;  // transport/algorithm
  Cores cores;       // after the last run
};

class Report {
 public:
  Report(bool as_json, bool silent) : as_json_(as_json), silent_(silent) {}

  void add(const Row& row);
  // One figure that is not a time.
  void note(const std::string& name, double value, const std::string& unit);

 private:
  void print_header();

  bool as_json_, silent_;
  bool header_printed_ = false;
};

}  // namespace roda::perf

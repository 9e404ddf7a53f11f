// What roda-sim prints.
#pragma once

#include <vector>

#include "tools/sim/candidates.h"
#include "tools/sim/model/formation.h"

namespace roda::simtool {

class Report {
 public:
  Report(bool as_json, bool with_path) : as_json_(as_json), with_path_(with_path) {}

  void add(const Row& row, const sim::Cluster& cluster);
  void add(const sim::ControlOptions& options, const std::vector<sim::ControlCost>& costs);
  void add(const sim::ControlOptions& options, const sim::FormationCost& cost);

 private:
  void print_line(const Row& row);
  void print_json(const Row& row, const sim::Cluster& cluster) const;

  bool as_json_;
  bool with_path_;
  bool header_printed_ = false;
};

}  // namespace roda::simtool

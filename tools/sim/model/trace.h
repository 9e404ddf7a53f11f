// What happened in a run, and because of what: enough to walk back from its end to its beginning.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tools/sim/model/network.h"
#include "tools/sim/model/simulate.h"

namespace roda::sim {

// A piece of work of one rank's processor, or a message on its way.
struct Record {
  bool wire = false;
  std::int32_t actor = 0;  // wire: the sender
  std::int32_t piece = 0;
  std::int32_t stage = 0;
  StepKind kind = StepKind::kSend;  // of work
  std::int32_t slot = -1;           // the peer; -1: none
  Time begin = 0;
  Time end = 0;             // wire: the arrival
  std::int32_t cause = -1;  // the record that it had to wait for, -1: the start
};

struct Trace {
  std::vector<Record> records;

  std::int32_t add(const Record& record) {
    records.push_back(record);
    return static_cast<std::int32_t>(records.size()) - 1;
  }
  // The records without which the end would have come earlier, first to last.
  std::vector<Record> critical_path() const;
};

// The critical path in the words of the schedules.
std::vector<PathStep> path_steps(const Trace& trace, const Actors& actors, const Cluster& cluster);

// Where the path's time went: "wire fabric", "recv_reduce", ...; "waits" is what lies between its steps.
struct PathShare {
  std::string what;
  double us = 0;
};
std::vector<PathShare> path_shares(const std::vector<PathStep>& path);

}  // namespace roda::sim

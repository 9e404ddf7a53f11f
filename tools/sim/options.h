// roda-sim's command line.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "algorithms/schedule/schedule.h"

namespace roda::simtool {

struct CommandLine {
  std::string cluster;  // file; empty: one switch
  std::vector<std::int32_t> ranks = {8};
  std::vector<double> sizes = {64 << 20};
  schedule::Collective collective = schedule::Collective::kAllreduce;
  std::vector<std::string> candidates;  // algorithms and plans; empty: all of the collective that need only messages
  std::vector<double> slices;           // of which the best is kept, 0: whole; empty: the engine's
  std::int32_t in_flight = 0;           // 0: the engine's
  std::string schedule;                 // a user's, in place of candidates
  std::string write;                    // write this algorithm's schedule file
  std::string plot;                     // file
  std::string train;                    // model, in place of collectives
  double rate = 0;                      // of one GPU, images or tokens a second; 0: as published for the model
  double batch = 0;                     // images or tokens of one GPU in a step; 0: as in what was published
  double most_steps = 150e6;
  bool control = false;
  bool path = false;
  bool json = false;
};

// nullopt: the program ends with *exit_code.
std::optional<CommandLine> parse_options(int argc, char** argv, int* exit_code);

}  // namespace roda::simtool

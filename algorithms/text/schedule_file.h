// Schedules as text: a user's algorithm in a file, or one of ours written out.
//
// JSON; docs/algorithms.md describes the format. A file holds the schedules of all ranks of one group. It is believed
// only when the verifier has proved it right: what is wrong is named by rank, lane and step.
//
// Pure functions, any thread.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "algorithms/schedule/schedule.h"

namespace roda::text {

// What may stand in one file: more is refused before memory is taken for it.
inline constexpr int kMostRanks = 512;
inline constexpr int kMostLanes = 16;
inline constexpr int kMostChunks = 1 << 12;       // of a rank's data, or of its scratch
inline constexpr int kMostChunksInAll = 1 << 20;  // over all ranks

// nullopt: *ranks holds the schedules of all ranks, verified. Else what is wrong, and where.
std::optional<std::string> read_schedules(const std::string& text, std::vector<schedule::Schedule>* ranks);

std::string write_schedules(const std::vector<schedule::Schedule>& ranks);

}  // namespace roda::text

// Schedules of all ranks for verifier tests: an algorithm's, or made up by hand.
#pragma once

#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <vector>

#include "algorithms/schedule/build.h"
#include "algorithms/schedule/schedule.h"
#include "algorithms/schedule/verifier.h"

namespace roda::schedule {

inline std::vector<Schedule> schedules_of(Collective collective, const std::string& name, int size, int root = 0) {
  std::vector<Schedule> ranks;
  for (int rank = 0; rank < size; ++rank) {
    ranks.push_back(find_algorithm(collective, name)->make(rank, size, root));
  }
  return ranks;
}

// One lane per rank.
inline std::vector<Schedule> by_hand(Collective collective, int chunks, const std::vector<std::vector<Step>>& steps) {
  std::vector<Schedule> ranks;
  const int size = static_cast<int>(steps.size());
  for (int rank = 0; rank < size; ++rank) {
    ranks.push_back(begin("by_hand", collective, rank, size, chunks));
    ranks.back().lanes[0].steps = steps[static_cast<std::size_t>(rank)];
  }
  return ranks;
}

inline std::vector<Step>& steps_of(std::vector<Schedule>& ranks, int rank, int lane = 0) {
  return ranks[static_cast<std::size_t>(rank)].lanes[static_cast<std::size_t>(lane)].steps;
}

// "rank 1, lane 0, step 2: message"; "right" when there is nothing wrong.
inline std::string verdict(const std::vector<Schedule>& ranks) {
  const std::optional<Violation> violation = verify(ranks);
  if (!violation) return "right";
  const std::string text = violation->to_text();
  return text.substr(text.find(": ") + 2);
}

inline testing::AssertionResult begins(const std::string& text, const std::string& start) {
  if (text.rfind(start, 0) == 0) return testing::AssertionSuccess();
  return testing::AssertionFailure() << '"' << text << "\" does not begin with \"" << start << '"';
}

inline testing::AssertionResult contains(const std::string& text, const std::string& part) {
  if (text.find(part) != std::string::npos) return testing::AssertionSuccess();
  return testing::AssertionFailure() << '"' << text << "\" does not contain \"" << part << '"';
}

}  // namespace roda::schedule

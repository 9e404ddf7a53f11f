// What is to run in place of the planner's own choice, by process set and class of launches, as the log has it.
//
// Deterministic: the same changes and launches in the same order give the same choices on every rank. Not thread-safe:
// owned by the holder of the engine's baton.
#pragma once

#include <compare>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>

#include "core/negotiate/refinement.h"

namespace roda::negotiate {

// What one launch is to run.
struct Choice {
  const std::string* option = nullptr;  // "transport/algorithm", lives as long as the Choices; null: the planner's own
  std::uint64_t attempt = 0;            // the number of the try that the launch is part of; 0: of none
  std::uint32_t index = 0;              // of the launch in that try
  bool is_tried = false;                // it runs what is tried, not what is in force
};

// Whether the launch of that index in a try runs what is tried. The Thue-Morse sequence: launches that come in a
// pattern of two, four or eight fall on both sides alike.
constexpr bool runs_the_tried(std::uint32_t index) { return std::popcount(index) % 2 == 1; }

class Choices {
 public:
  // The change's number, from 1; 0: it is stale, or ends no try, and changes nothing.
  std::uint64_t apply(const Refinement& refinement);
  // For the next launch of the class, and counts it. Allocates nothing.
  Choice take(std::int32_t set, const LaunchClass& of);
  void forget_set(std::int32_t set);
  bool empty() const { return entries_.empty(); }

 private:
  struct Entry {
    std::uint64_t latest = 0;  // change
    const std::string* kept = nullptr;
    const std::string* tried = nullptr;  // null: the latest change was no try
    std::uint64_t attempt = 0;
    std::uint32_t launches = 0, used = 0;
  };
  std::uint64_t changes_ = 0;
  std::map<std::pair<std::int32_t, LaunchClass>, Entry> entries_;
  std::set<std::string> options_;  // launches on their way point to them
};

}  // namespace roda::negotiate

// What a job runs at present, and how that came about: for people and tests.
//
// Threads: any; it locks itself.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/negotiate/refinement.h"

namespace roda::engine {

// "change 3: allreduce of 32768 to 65535 bytes of float32 (SUM), process set 0: keeps tcp/ring, 81 us against 240 us of
// tcp/rabenseifner"
std::string sentence(std::uint64_t number, const negotiate::Refinement& refinement);

class ChoiceTable {
 public:
  // A launch started by the plan of that text.
  void ran(std::int32_t set, const negotiate::LaunchClass& of, const std::string& plan);
  void changed(std::uint64_t number, const negotiate::Refinement& refinement);
  void forget_set(std::int32_t set);

  // What the latest change that kept something says of it; nullopt: the selection's own choice is in force.
  struct Kept {
    std::string option;
    std::string words;
  };
  std::optional<Kept> kept(std::int32_t set, const negotiate::LaunchClass& of) const;

  // Each class that has run here: by what, how often, and every change. The same on all members of a set but for what
  // is still on its way.
  std::string describe(bool as_json) const;

 private:
  struct Row {
    std::map<std::string, std::uint64_t> ran;  // launches by plan
    std::vector<std::pair<std::uint64_t, negotiate::Refinement>> changes;
  };
  using Rows = std::map<std::pair<std::int32_t, negotiate::LaunchClass>, Row>;

  mutable std::mutex mutex_;
  Rows rows_;
};

}  // namespace roda::engine

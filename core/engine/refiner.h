// Proposes what else to run, from the times of launches that one rank saw, and judges what was tried.
//
// Of each class of launches it watches those that ran alone. Once it has seen enough of them it proposes to try the
// next option of the selection's list: about every second one of a bounded number of launches runs that option, in an
// order that patterns of the application do not follow. So both sides see the same disturbances. The option is kept if
// it was clearly quicker: its median by `margin`, and but for one outlier on each side every launch of it was quicker
// than every one of the other side. Where both are equal, whatever their noise, that comes about in 1 of 590 tries (of
// 9 times on each side: 82 orders of C(18, 9)). After each try the patience doubles; there are few of them.
//
// Pure: it looks at no clock and says nothing by itself. Only what it proposes and the log then carries takes effect.
// Not thread-safe. Allocates for what it has not seen before, and around tries.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/negotiate/choices.h"
#include "core/negotiate/refinement.h"

namespace roda::engine {

class Refiner {
 public:
  struct Rules {
    int patience = 32;            // launches seen before the first try
    int warm_up = 2;              // of each side of a try, not counted: connections form
    int counted = 9;              // of each side of a try
    std::uint32_t launches = 40;  // of a try: what is needed, and some that others disturb
    int most_tries = 8;           // of a class
    int most_of_one = 2;          // of them with one option
    double margin = 1.25;         // of the medians, for what is kept
    double hopeless = 2;          // how much slower ends a try early, and for good, after kSoon launches of each side
    double most_predicted = 3;    // of the least prediction of the class; what costs more is not tried
  };
  static constexpr int kSoon = 3;

  // What could run a class, in the selection's order; what runs by itself is the first.
  struct Candidate {
    std::string option;
    std::optional<double> predicted;  // seconds; nullopt: it is not to be tried
  };
  using Candidates = std::function<std::vector<Candidate>()>;

  Refiner() : Refiner(Rules{}) {}
  explicit Refiner(const Rules& rules) : rules_(rules) {}

  // A launch of the class ended here. `seconds`: how long it took from the moment when all ranks were known to be
  // ready; nullopt where others ran beside it. Returns what to say in the log, if anything. `candidates` is asked once
  // a class.
  std::optional<negotiate::Refinement> ended(std::int32_t set, const negotiate::LaunchClass& of,
                                             const negotiate::Choice& choice, std::optional<double> seconds,
                                             const Candidates& candidates);
  // What the log says, this rank's proposals among it.
  void applied(std::uint64_t number, const negotiate::Refinement& refinement);
  void forget_set(std::int32_t set);

 private:
  static constexpr int kMostCounted = 16;
  struct Side {
    int seen = 0;  // with the warm-up
    int counted = 0;
    std::array<double, kMostCounted> seconds{};
    double median() const;
  };
  struct Option {
    Candidate candidate;
    int tries = 0;
    bool is_hopeless = false;
  };
  enum class Phase : std::uint8_t { kWatching, kAsked, kTrying, kConcluding, kDone };
  struct Watched {
    Phase phase = Phase::kWatching;
    int seen = 0;  // since the last try
    int tries = 0;
    std::uint64_t latest = 0;  // change
    std::optional<std::vector<Option>> options;
    std::string present, tried;
    Side of_present, of_tried;
  };
  using Key = std::pair<std::int32_t, negotiate::LaunchClass>;

  void count(Side* side, double seconds) const;
  bool is_full(const Side& side) const { return side.counted == rules_.counted; }
  bool is_clearly_quicker(const Side& tried, const Side& present) const;
  bool is_hopeless(const Side& tried, const Side& present) const;
  std::optional<negotiate::Refinement> look_for_a_try(const Key& key, Watched* w, const Candidates& candidates) const;
  Option* next_option(Watched* w) const;
  std::optional<negotiate::Refinement> judge(const Key& key, Watched* w, bool is_last) const;
  static negotiate::Refinement change(negotiate::Change what, const Key& key, const Watched& w);

  Rules rules_;
  std::map<Key, Watched> watched_;
};

}  // namespace roda::engine

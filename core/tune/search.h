// What to measure next, and what was best: first fusion threshold and waiting time together, by Bayesian optimisation
// (J. Mockus, "On Bayesian methods for seeking the extremum", 1975: the expected improvement); then what promises most
// beside what was in force at the start, one right after the other; then each choice among a few values likewise.
//
// Pure; not thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <random>
#include <vector>

#include "core/tune/gaussian_process.h"
#include "core/wire/request.h"

namespace roda::tune {

using negotiate::Tuning;

// Another value of one thing: makes it so.
using Change = std::function<void(Tuning*)>;
// The other values of one thing.
struct Choice {
  std::vector<Change> changes;
  // Buckets of so many bytes it is about. Where there are few of them it is left as it is.
  std::size_t from = 0;
  std::size_t to = SIZE_MAX;
};

struct SearchOptions {
  bool threshold = true;  // whether it is looked for, or stays as it is
  bool hold = true;       // likewise
  std::size_t most = 20;  // measurements of those two
  double noise = 0.8;     // GaussianProcess::most_noise
  std::vector<Choice> choices;
};

class Search {
 public:
  // `start`: what is in force, and is measured first.
  Search(const Tuning& start, SearchOptions options);

  // To be measured; once it is over: the best.
  const Tuning& trial() const { return trial_; }
  bool is_over() const { return is_over_; }
  // With the trial in force a bucket of so many bytes was launched.
  void saw(std::size_t bytes) { ++seen_[bytes]; }
  // Nothing is looked for: this is the best.
  void end_with(const Tuning& found);
  // The trial's score: the higher, the better.
  void scored(double score);
  // The score of trial(), once the search is over.
  double best_score() const { return best_score_; }

 private:
  bool is_continuous() const { return options_.most > 0 && (options_.threshold || options_.hold); }
  Point point_of(const Tuning& tuning) const;
  Tuning tuning_at(const Point& point) const;
  void propose();
  Point most_promising() const;
  void add_finalists();
  bool is_worthwhile(const Choice& choice) const;
  void begin_choice();
  void try_next();

  SearchOptions options_;
  Tuning trial_;
  bool is_over_ = false;
  double best_score_ = 0;
  std::vector<Point> points_;
  std::vector<Tuning> tunings_;  // at the points
  std::vector<double> scores_;   // there
  bool is_choosing_ = false;
  std::size_t choice_ = 0;  // of options_.choices
  std::size_t tried_ = 0;   // measurements for it
  Tuning best_;
  Tuning in_force_;                  // when the choice began
  std::map<std::size_t, int> seen_;  // buckets of each size since the last score
  mutable std::minstd_rand random_;
};

}  // namespace roda::tune

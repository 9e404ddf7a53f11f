// Autotuning, as far as rank 0 has it: watches what is launched, and says what all ranks should change to.
//
// A score is the median of five samples; the first ones are discarded. Each score is a row of the log. Its last row has
// what was found and for which job: the next job of that kind begins with it and measures nothing.
// Owned by the holder of the baton.
#pragma once

#include <cstddef>
#include <fstream>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "core/tune/search.h"

namespace roda::tune {

// Bytes per microsecond of allreduces over steps of training.
class Sampler {
 public:
  // `steps`: in one sample, at least 1.
  explicit Sampler(int steps) : steps_(steps) {}

  // Forgets what it has seen. The first step from now on is not measured: it may have begun before, and what is used
  // for the first time is made in it.
  void restart();

  // Tensors that travel together, by name, then end(): a sample's score when one is complete. A step is over when a
  // tensor comes again.
  void add(const std::string& tensor) { current_.push_back(tensor); }
  std::optional<double> end(std::size_t bytes, double now_us);

 private:
  void begin(double now_us);

  int steps_;
  std::vector<std::string> current_;  // tensors of the bucket that end() ends
  std::unordered_map<std::string, int> seen_;
  int most_seen_ = 0;
  bool is_measuring_ = false;
  double began_us_ = 0;
  double bytes_ = 0;
};

class Tuner {
 public:
  struct Study {
    int warmup = 3;             // scores that are discarded
    int steps = 10;             // in a sample
    std::string log;            // path; empty: none. Truncated, unless it has what was found for such a job
    std::string fixed_columns;  // of the log: the values that Horovod's log has first
    std::string job;            // of which kind it is, without commas
  };
  Tuner(const Study& study, Search search);

  // Tensors of one bucket: what the sampler is told. What is to be in force from now on, if that is news: the caller
  // puts it into the log of the ranks, and says in_force() when it comes from there.
  Sampler& sampler() { return sampler_; }
  std::optional<Tuning> launched(std::size_t bytes, double now_us);
  void in_force();

  // Nothing is looked for any more: what is in force stays.
  bool is_over() const { return search_.is_over() && !waits_ && !is_to_tell_; }
  const Tuning& best() const { return search_.trial(); }

 private:
  std::optional<Tuning> found_before() const;
  void write(const Tuning& tuning, double score, std::string_view job);

  const Study study_;
  Search search_;
  Sampler sampler_;
  std::vector<double> samples_;
  int discarded_ = 0;
  bool is_to_tell_ = false;  // what an earlier job has found
  bool waits_ = false;       // for in_force()
  std::ofstream log_;
};

}  // namespace roda::tune

// Autotuning, as far as rank 0 has it: watches what is launched, and says what all ranks should change to.
//
// A score is the median of five samples; the first ones are discarded. Each score is a row of the log. Its last row has
// what was found and for which job: the next job of that kind begins with it and measures nothing.
// Owned by the holder of the baton.
#pragma once

#include <fstream>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/tune/sampler.h"
#include "core/tune/search.h"

namespace roda::tune {

class Tuner {
 public:
  struct Options {
    int warmup = 3;             // scores that are discarded
    int steps = 10;             // in a sample
    std::string log;            // path; empty: none. Truncated, unless it has what was found for such a job
    std::string fixed_columns;  // of the log: the values that Horovod's log has first
    std::string job;            // of which kind it is, without commas
  };
  Tuner(const Options& options, Search search);

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

  const Options options_;
  Search search_;
  Sampler sampler_;
  std::vector<double> samples_;
  int discarded_ = 0;
  bool is_to_tell_ = false;  // what an earlier job has found
  bool waits_ = false;       // for in_force()
  std::ofstream log_;
};

}  // namespace roda::tune

// Bytes per microsecond of allreduces over steps of training.
//
// Pure; not thread-safe.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

namespace roda::tune {

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

}  // namespace roda::tune

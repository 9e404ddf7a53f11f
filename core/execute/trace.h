// When the parts of a launch began and ended, for the timeline: packing, calls of a composition or slices of a plan
// that has none, unpacking.
//
// Not thread-safe: owned by whoever runs the launch.
#pragma once

#include <chrono>
#include <cstddef>
#include <string>
#include <utility>
#include <vector>

namespace roda::execute {

class Trace {
 public:
  using Clock = std::chrono::steady_clock;
  static constexpr std::size_t kMostParts = 4096;  // of a launch; the others are left out

  struct Part {
    std::string what;
    int stage = -1;  // of the plan, or which of the slices in flight; -1: copies
    std::size_t slice = 0;
    Clock::time_point begin, end;
  };
  // Adds a part that ends now.
  void add(std::string what, int stage, std::size_t slice, Clock::time_point begin) {
    if (parts_.size() < kMostParts) parts_.push_back({std::move(what), stage, slice, begin, Clock::now()});
  }
  const std::vector<Part>& parts() const { return parts_; }
  void clear() { parts_.clear(); }

  // A copy, for as long as this lives. Null: nobody asks.
  class Copy {
   public:
    Copy(Trace* trace, const char* what) : trace_(trace), what_(what) {
      if (trace_ != nullptr) begin_ = Clock::now();
    }
    ~Copy() {
      if (trace_ != nullptr) trace_->add(what_, -1, 0, begin_);
    }
    Copy(const Copy&) = delete;
    Copy& operator=(const Copy&) = delete;

   private:
    Trace* trace_;
    const char* what_;
    Clock::time_point begin_;
  };

 private:
  std::vector<Part> parts_;
};

}  // namespace roda::execute

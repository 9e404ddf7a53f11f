// What happened to every tensor, as a Chrome trace (chrome://tracing, Perfetto): how long it waited for which rank,
// when it was launched, when it was done. Written by rank 0.
//
// The file is complete JSON after every event, so that a job that was killed leaves something readable.
// Threads: any; costs one relaxed load while no file is open.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "plugins/base/status.h"

namespace roda::observe {

class Timeline {
 public:
  Timeline();
  ~Timeline();
  Timeline(const Timeline&) = delete;
  Timeline& operator=(const Timeline&) = delete;

  // Opens the file; one that is open already is closed first, unless it is the same. An error leaves nothing open.
  Status open(const std::string& path, bool mark_cycles);
  void close();
  bool active() const { return active_.load(std::memory_order_relaxed); }

  // Events of one tensor, in this order. `collective` is a roda_collective.
  void announced(const std::string& tensor, int collective, int rank);
  void agreed(const std::string& tensor, int collective);  // or refused: the end of the negotiation
  void launched(const std::string& tensor, int collective);
  void started(const std::string& tensor, const std::string& activity);
  void ended(const std::string& tensor, int dtype, const std::vector<std::int64_t>& shape);
  // A bucket is launched; marked when the file was opened with mark_cycles. The opening counts as the first, so that
  // every such file has a mark.
  void cycle();

 private:
  int pid_of(const std::string& tensor);
  void mark_cycle();
  void event(const std::string& json);
  std::int64_t now_us() const;

  std::atomic<bool> active_{false};
  std::chrono::steady_clock::time_point start_;
  std::mutex mutex_;  // all below
  FILE* file_ = nullptr;
  std::string path_;
  bool mark_cycles_ = false;
  bool first_ = true;
  std::map<std::string, int> pids_;
  std::set<std::string> negotiating_;
};

}  // namespace roda::observe

// What happened to every tensor, as a Chrome trace (chrome://tracing, Perfetto): how long it waited for which rank,
// when it was launched, what ran for it, when it was done.
//
// Events are gathered in memory and written by a thread of their own, which there is while a file is open. After every
// write, ten a second at most, the file is complete JSON: a job that was killed leaves something readable, which lacks
// the last kGather.
//
// A tensor has a row of its own (Chrome's pid). Names that are used no more are forgotten, as unnamed tensors get new
// ones for ever; one that comes back has another row of that name.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <string>
#include <string_view>
#include <thread>
#include <unordered_map>
#include <vector>

#include "plugins/base/mutex.h"
#include "plugins/base/status.h"
#include "plugins/base/unique_fd.h"

namespace roda::observe {

// Any thread; costs one relaxed load while no file is open.
class Timeline {
 public:
  static constexpr std::chrono::milliseconds kGather{100};

  Timeline();
  ~Timeline();
  Timeline(const Timeline&) = delete;
  Timeline& operator=(const Timeline&) = delete;

  // Opens the file; one that is open already is closed first, unless it is the same. An error leaves nothing open.
  // `about`: members of a JSON object that say who writes, for roda-trace.
  Status open(const std::string& path, bool mark_cycles, const std::string& about = "");
  // Blocks until all events are in the file.
  void close();
  bool active() const { return active_.load(std::memory_order_relaxed); }

  // Events of one tensor, in this order. `collective` is a roda_collective. They block only while the file takes much
  // less than they give.
  void announced(const std::string& tensor, int collective, int rank);
  void agreed(const std::string& tensor, int collective);  // or refused: the end of the negotiation
  void launched(const std::string& tensor, int collective);
  // `args`: what is known of it, as a JSON object.
  void started(const std::string& tensor, const std::string& activity, const std::string& args = "{}");
  // A part of what runs for it, in a row of its own: number `row`, from 1 on.
  struct Part {
    std::string_view what;
    int row = 1;
    std::size_t slice = 0;
    std::chrono::steady_clock::time_point begin, end;
  };
  void part(const std::string& tensor, const Part& part);
  void ended(const std::string& tensor, int dtype, const std::vector<std::int64_t>& shape);
  // A bucket is launched; marked when the file was opened with mark_cycles. The opening counts as the first, so that
  // every such file has a mark.
  void cycle();

 private:
  using Clock = std::chrono::steady_clock;
  struct Tensor {
    int pid = 0;
    bool is_negotiating = false;
    bool is_launched = false;
    bool is_recent = false;  // used since names were last forgotten
  };

  void close_file() RODA_REQUIRES(switching_);
  // Whether events are taken; waits for room.
  bool begin(MutexLock& lock) RODA_REQUIRES(mutex_);
  Tensor& find(const std::string& name) RODA_REQUIRES(mutex_);
  void forget_names() RODA_REQUIRES(mutex_);
  // `rest`: further members, each after a comma. Without a name for the end of what began last.
  void event(std::string_view name, char phase, std::int64_t time, int pid, std::string_view rest = "")
      RODA_REQUIRES(mutex_);
  void describe(int pid, std::string_view name) RODA_REQUIRES(mutex_);
  void mark_cycle() RODA_REQUIRES(mutex_) { event("CYCLE_START", 'i', now_us(), 0, ", \"s\": \"g\""); }
  std::int64_t now_us() const { return us(Clock::now()); }
  std::int64_t us(Clock::time_point at) const;

  // The writer's thread.
  void write(const std::string& path);
  Status put(std::string* events, const std::string& path);

  std::atomic<bool> active_{false};
  const Clock::time_point start_;

  Mutex switching_;  // held while a file is opened or closed; before mutex_
  std::string path_ RODA_GUARDED_BY(switching_);
  std::thread writer_ RODA_GUARDED_BY(switching_);

  Mutex mutex_;
  std::condition_variable news_, room_;
  std::string text_ RODA_GUARDED_BY(mutex_);  // events that are not in the file yet
  bool is_closing_ RODA_GUARDED_BY(mutex_) = false;
  bool mark_cycles_ RODA_GUARDED_BY(mutex_) = false;
  std::unordered_map<std::string, Tensor> tensors_ RODA_GUARDED_BY(mutex_);
  std::pair<const std::string, Tensor>* latest_ RODA_GUARDED_BY(mutex_) = nullptr;  // of tensors_
  int last_pid_ RODA_GUARDED_BY(mutex_) = 0;
  std::size_t new_bytes_ RODA_GUARDED_BY(mutex_) = 0;  // of names, since some were last forgotten

  // The writer's while there is one.
  UniqueFd file_;
  std::int64_t end_ = 0;  // where the closing bracket stands
};

}  // namespace roda::observe

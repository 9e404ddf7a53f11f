#include "core/observe/timeline.h"

#include <roda/abi/types.h>

#include <cerrno>
#include <cstring>

#include "plugins/base/format.h"
#include "plugins/base/json.h"

namespace roda::observe {

Timeline::Timeline() : start_(std::chrono::steady_clock::now()) {}
Timeline::~Timeline() { close(); }

std::int64_t Timeline::now_us() const {
  return std::chrono::duration_cast<std::chrono::microseconds>(std::chrono::steady_clock::now() - start_).count();
}

Status Timeline::open(const std::string& path, bool mark_cycles) {
  {
    const std::scoped_lock lock(mutex_);
    if (file_ != nullptr && path == path_) return {};
  }
  close();
  const std::scoped_lock lock(mutex_);
  file_ = std::fopen(path.c_str(), "we");
  if (file_ == nullptr) {
    return Status::system("The timeline file '" + path + "' can't be opened: " + std::strerror(errno));
  }
  path_ = path;
  mark_cycles_ = mark_cycles;
  first_ = true;
  pids_.clear();
  negotiating_.clear();
  std::fputs("[\n]\n", file_);
  const auto epoch =
      std::chrono::duration_cast<std::chrono::microseconds>(std::chrono::system_clock::now().time_since_epoch())
          .count() -
      now_us();
  event(roda::format(
      R"({{"name": "process_name", "ph": "M", "pid": 0, "args": {{"start_time_since_epoch_in_micros": {}}}}})", epoch));
  event(R"({"name": "process_sort_index", "ph": "M", "pid": 0, "args": {"sort_index": 0}})");
  if (mark_cycles_) mark_cycle();
  active_.store(true, std::memory_order_relaxed);
  return {};
}

void Timeline::close() {
  const std::scoped_lock lock(mutex_);
  active_.store(false, std::memory_order_relaxed);
  if (file_ != nullptr) std::fclose(file_);
  file_ = nullptr;
}

// Takes the place of the closing bracket, and writes it anew.
void Timeline::event(const std::string& json) {
  std::fseek(file_, -2, SEEK_END);
  std::fprintf(file_, "%s%s\n]\n", first_ ? "" : ",", json.c_str());
  std::fflush(file_);
  first_ = false;
}

int Timeline::pid_of(const std::string& tensor) {
  const auto [it, fresh] = pids_.emplace(tensor, static_cast<int>(pids_.size()) + 1);
  if (fresh) {
    event(roda::format(R"({{"name": "process_name", "ph": "M", "pid": {}, "args": {{"name": {}}}}})", it->second,
                       json_quote(tensor)));
    event(roda::format(R"({{"name": "process_sort_index", "ph": "M", "pid": {0}, "args": {{"sort_index": {0}}}}})",
                       it->second));
  }
  return it->second;
}

void Timeline::announced(const std::string& tensor, int collective, int rank) {
  if (!active()) return;
  const std::scoped_lock lock(mutex_);
  if (file_ == nullptr) return;
  const int pid = pid_of(tensor);
  if (negotiating_.insert(tensor).second) {
    event(roda::format(R"({{"name": "NEGOTIATE_{}", "ph": "B", "ts": {}, "pid": {}}})",
                       roda_collective_name(collective), now_us(), pid));
  }
  event(roda::format(R"({{"name": "{}", "ph": "X", "ts": {}, "pid": {}, "dur": 0}})", rank, now_us(), pid));
}

void Timeline::agreed(const std::string& tensor, int collective) {
  if (!active()) return;
  const std::scoped_lock lock(mutex_);
  if (file_ == nullptr || negotiating_.erase(tensor) == 0) return;
  event(roda::format(R"({{"name": "NEGOTIATE_{}", "ph": "E", "ts": {}, "pid": {}}})", roda_collective_name(collective),
                     now_us(), pid_of(tensor)));
}

void Timeline::launched(const std::string& tensor, int collective) {
  if (!active()) return;
  const std::scoped_lock lock(mutex_);
  if (file_ == nullptr) return;
  const int pid = pid_of(tensor);
  const std::int64_t now = now_us();
  event(
      roda::format(R"({{"name": "{}", "ph": "B", "ts": {}, "pid": {}}})", roda_collective_name(collective), now, pid));
  event(roda::format(R"({{"name": "QUEUE", "ph": "B", "ts": {}, "pid": {}}})", now, pid));
}

void Timeline::started(const std::string& tensor, const std::string& activity) {
  if (!active()) return;
  const std::scoped_lock lock(mutex_);
  if (file_ == nullptr) return;
  const int pid = pid_of(tensor);
  const std::int64_t now = now_us();
  event(roda::format(R"({{"ph": "E", "ts": {}, "pid": {}}})", now, pid));  // QUEUE
  event(roda::format(R"({{"name": "{}", "ph": "B", "ts": {}, "pid": {}}})", activity, now, pid));
}

void Timeline::ended(const std::string& tensor, int dtype, const std::vector<std::int64_t>& shape) {
  if (!active()) return;
  const std::scoped_lock lock(mutex_);
  if (file_ == nullptr) return;
  const int pid = pid_of(tensor);
  const std::int64_t now = now_us();
  event(roda::format(R"({{"ph": "E", "ts": {}, "pid": {}}})", now, pid));  // the activity
  event(roda::format(R"({{"ph": "E", "ts": {}, "pid": {}, "args": {{"dtype": "{}", "shape": "[{}]"}}}})", now, pid,
                     roda_dtype_name(dtype), roda::join(shape, ", ")));
}

void Timeline::cycle() {
  if (!active()) return;
  const std::scoped_lock lock(mutex_);
  if (file_ != nullptr && mark_cycles_) mark_cycle();
}

void Timeline::mark_cycle() {
  event(roda::format(R"({{"name": "CYCLE_START", "ph": "i", "ts": {}, "pid": 0, "s": "g"}})", now_us()));
}

}  // namespace roda::observe

#include "core/observe/timeline.h"

#include <fcntl.h>
#include <roda/abi/types.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <cstring>
#include <utility>

#include "plugins/base/format.h"
#include "plugins/base/helper_thread.h"
#include "plugins/base/log.h"

namespace roda::observe {
namespace {

constexpr std::size_t kMuch = 1 << 20;       // of text: don't gather any longer
constexpr std::size_t kTooMuch = 64 << 20;   // wait for the file
constexpr std::size_t kManyNames = 4 << 20;  // bytes, with what belongs to them: some 40,000 tensors
constexpr std::string_view kClosing = "]\n";

void append(std::string* text, std::int64_t number) {
  char digits[24];
  text->append(digits, std::to_chars(digits, digits + sizeof digits, number).ptr);
}

std::string name_of(const char* prefix, int collective) {
  return std::string(prefix) + roda_collective_name(collective);
}

}  // namespace

Timeline::Timeline() : start_(Clock::now()) {}
Timeline::~Timeline() { close(); }

std::int64_t Timeline::us(Clock::time_point at) const {
  return std::chrono::duration_cast<std::chrono::microseconds>(at - start_).count();
}

// --- the file -------------------------------------------------------------------------------------------------------

Status Timeline::open(const std::string& path, bool mark_cycles, const std::string& about) {
  const MutexLock switching(switching_);
  if (file_ && path == path_) return {};
  close_file();
  file_.reset(::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666));
  if (!file_) return Status::of_errno(roda::format("The timeline file '{}' can't be opened", path));
  path_ = path;
  const auto epoch =
      std::chrono::duration_cast<std::chrono::microseconds>(std::chrono::system_clock::now().time_since_epoch())
          .count() -
      now_us();
  std::string first = roda::format(
      "[\n{{\"name\": \"process_name\", \"ph\": \"M\", \"pid\": 0, \"args\": {{\"start_time_since_epoch_in_micros\": "
      "{}{}{}}}}}\n",
      epoch, about.empty() ? "" : ", ", about);
  end_ = 0;
  if (Status status = put(&first, path); !status.ok()) {
    file_.reset();
    return status;
  }
  const MutexLock lock(mutex_);
  mark_cycles_ = mark_cycles;
  is_closing_ = false;
  text_.clear();
  tensors_.clear();
  latest_ = nullptr;
  last_pid_ = 0;
  new_bytes_ = 0;
  describe(0, "");
  if (mark_cycles_) mark_cycle();
  writer_ = start_thread("roda-timeline", [this, path] { write(path); });
  active_.store(true, std::memory_order_relaxed);
  return {};
}

void Timeline::close() {
  const MutexLock switching(switching_);
  close_file();
}

void Timeline::close_file() {
  active_.store(false, std::memory_order_relaxed);
  if (!file_) return;
  {
    const MutexLock lock(mutex_);
    is_closing_ = true;
    news_.notify_one();
    room_.notify_all();
  }
  writer_.join();
  file_.reset();
}

void Timeline::write(const std::string& path) {
  std::string events;
  MutexLock lock(mutex_);
  while (true) {
    while (text_.empty() && !is_closing_) news_.wait(lock.held());
    if (text_.empty()) return;
    const auto gathered = Clock::now() + kGather;
    while (!is_closing_ && text_.size() < kMuch && news_.wait_until(lock.held(), gathered) != std::cv_status::timeout) {
    }
    events.swap(text_);
    room_.notify_all();
    lock.unlock();
    const Status status = put(&events, path);
    events.clear();
    lock.lock();
    if (status.ok()) continue;
    // The job does not depend on its trace: it goes on without.
    RODA_LOG(error, "{}", status.message());
    active_.store(false, std::memory_order_relaxed);
    is_closing_ = true;
    text_.clear();
    room_.notify_all();
    return;
  }
}

// In place of the closing bracket, and that anew, in one call.
Status Timeline::put(std::string* events, const std::string& path) {
  const auto begun = end_;
  *events += kClosing;
  std::string_view rest = *events;
  while (!rest.empty()) {
    const ssize_t count = ::pwrite(file_.get(), rest.data(), rest.size(), end_);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) {
      const Status status =
          Status::system("The timeline '" + path + "' ends here: " + std::strerror(errno) + ". The job goes on.");
      if (::ftruncate(file_.get(), begun) == 0) static_cast<void>(!::pwrite(file_.get(), "]\n", 2, begun));
      return status;
    }
    end_ += count;
    rest.remove_prefix(static_cast<std::size_t>(count));
  }
  end_ -= static_cast<std::int64_t>(kClosing.size());
  return {};
}

// --- events ---------------------------------------------------------------------------------------------------------

bool Timeline::begin(MutexLock& lock) {
  while (text_.size() > kTooMuch && !is_closing_) room_.wait(lock.held());
  if (text_.empty() || text_.size() > kMuch) news_.notify_one();
  return !is_closing_;
}

void Timeline::event(std::string_view name, char phase, std::int64_t time, int pid, std::string_view rest) {
  text_ += ",{";
  if (!name.empty()) text_.append("\"name\": \"").append(name).append("\", ");
  text_.append("\"ph\": \"").append(1, phase).append("\", \"ts\": ");
  append(&text_, time);
  text_ += ", \"pid\": ";
  append(&text_, pid);
  text_.append(rest).append("}\n");
}

// What viewers call the row, and where they put it.
void Timeline::describe(int pid, std::string_view name) {
  if (!name.empty()) {
    text_ += roda::format(",{{\"name\": \"process_name\", \"ph\": \"M\", \"pid\": {}, \"args\": {{\"name\": {}}}}}\n",
                          pid, json_quote(name));
  }
  text_ += roda::format(
      ",{{\"name\": \"process_sort_index\", \"ph\": \"M\", \"pid\": {0}, \"args\": {{\"sort_index\": {0}}}}}\n", pid);
}

Timeline::Tensor& Timeline::find(const std::string& name) {
  // Mostly it is the one that was looked for last.
  const bool is_latest = latest_ != nullptr && latest_->first == name;
  if (!is_latest) latest_ = &*tensors_.try_emplace(name).first;
  Tensor& tensor = latest_->second;
  tensor.is_recent = true;
  if (tensor.pid != 0) return tensor;
  tensor.pid = ++last_pid_;
  describe(tensor.pid, name);
  new_bytes_ += sizeof *latest_ + name.size();
  if (new_bytes_ > kManyNames) forget_names();
  return tensor;
}

// But for those used since the last time, the latest among them, and those whose row has an open event.
void Timeline::forget_names() {
  new_bytes_ = 0;
  for (auto at = tensors_.begin(); at != tensors_.end();) {
    Tensor& tensor = at->second;
    const bool is_kept = std::exchange(tensor.is_recent, false) || tensor.is_negotiating || tensor.is_launched;
    at = is_kept ? std::next(at) : tensors_.erase(at);
  }
}

void Timeline::announced(const std::string& tensor, int collective, int rank) {
  if (!active()) return;
  MutexLock lock(mutex_);
  if (!begin(lock)) return;
  Tensor& told = find(tensor);
  const std::int64_t now = now_us();
  if (!std::exchange(told.is_negotiating, true)) event(name_of("NEGOTIATE_", collective), 'B', now, told.pid);
  event(std::to_string(rank), 'X', now, told.pid, ", \"dur\": 0");
}

void Timeline::agreed(const std::string& tensor, int collective) {
  if (!active()) return;
  MutexLock lock(mutex_);
  if (!begin(lock)) return;
  Tensor& told = find(tensor);
  if (!std::exchange(told.is_negotiating, false)) return;
  event(name_of("NEGOTIATE_", collective), 'E', now_us(), told.pid);
}

void Timeline::launched(const std::string& tensor, int collective) {
  if (!active()) return;
  MutexLock lock(mutex_);
  if (!begin(lock)) return;
  Tensor& told = find(tensor);
  told.is_launched = true;
  const std::int64_t now = now_us();
  event(roda_collective_name(collective), 'B', now, told.pid);
  event("QUEUE", 'B', now, told.pid);
}

void Timeline::started(const std::string& tensor, const std::string& activity, const std::string& args) {
  if (!active()) return;
  MutexLock lock(mutex_);
  if (!begin(lock)) return;
  const int pid = find(tensor).pid;
  const std::int64_t now = now_us();
  event("", 'E', now, pid);  // QUEUE
  event(activity, 'B', now, pid, ", \"args\": " + args);
}

void Timeline::part(const std::string& tensor, const Part& part) {
  if (!active()) return;
  MutexLock lock(mutex_);
  if (!begin(lock)) return;
  event(part.what, 'X', us(part.begin), find(tensor).pid,
        roda::format(", \"tid\": {}, \"dur\": {}, \"args\": {{\"slice\": {}}}", part.row, us(part.end) - us(part.begin),
                     part.slice));
}

void Timeline::ended(const std::string& tensor, int dtype, const std::vector<std::int64_t>& shape) {
  if (!active()) return;
  MutexLock lock(mutex_);
  if (!begin(lock)) return;
  Tensor& told = find(tensor);
  told.is_launched = false;
  const std::int64_t now = now_us();
  event("", 'E', now, told.pid);  // the activity
  event("", 'E', now, told.pid,
        roda::format(", \"args\": {{\"dtype\": \"{}\", \"shape\": \"[{}]\"}}", roda_dtype_name(dtype),
                     roda::join(shape, ", ")));
}

void Timeline::cycle() {
  if (!active()) return;
  MutexLock lock(mutex_);
  if (begin(lock) && mark_cycles_) mark_cycle();
}

}  // namespace roda::observe

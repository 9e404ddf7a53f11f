// The key-value store that processes meet over while a job starts.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "plugins/base/mutex.h"
#include "plugins/base/status.h"

namespace roda {

using Deadline = std::chrono::steady_clock::time_point;

// Any thread. Keys are short text; values are bytes. A second put replaces the first.
class Store {
 public:
  using Clock = std::chrono::steady_clock;
  static constexpr std::size_t kMaxKey = 512;
  static constexpr std::size_t kMaxValue = 64 * 1024;

  virtual ~Store() = default;

  virtual Status put(const std::string& key, std::string_view value) = 0;
  // Does nothing when the key is there; get() or wait() tells whose value it is.
  virtual Status put_if_absent(const std::string& key, std::string_view value) = 0;
  // Does not block. *found is false while nobody has put the key.
  virtual Status get(const std::string& key, std::string* value, bool* found) = 0;
  // Blocks until the key is there; RODA_ERR_TIMEOUT at the deadline.
  virtual Status wait(const std::string& key, Deadline deadline, std::string* value) = 0;

  // A gathering: each of some ranks gives a value under one key. Such keys are apart from the others.
  virtual Status give(const std::string& key, int rank, std::string_view value) = 0;
  // Does not block. What that rank gave.
  virtual Status take(const std::string& key, int rank, std::string* value, bool* found) = 0;
  // Does not block. By rank, once all of `count` ranks have given theirs. When each of these has taken all, the
  // gathering is gone; take() has no part in such a one.
  virtual Status take_all(const std::string& key, int count, std::vector<std::string>* values, bool* found) = 0;
  virtual Status wait_all(const std::string& key, int count, Deadline deadline, std::vector<std::string>* values) = 0;
  // The lowest of `count` ranks that has not given its value, -1: all have, or it can't be told. Blocks for a round
  // trip.
  virtual int first_missing(const std::string& key, int count) = 0;

  // A rank comes to where the keys begin with "<scope>/", and leaves it. Where it fails, or ends before it has left,
  // all who wait there for keys that nobody has put get that as their error; the first one stays. In a job of one
  // process, which ends as a whole, nobody need be told.
  virtual Status enter(const std::string& /*scope*/, int /*rank*/) { return {}; }
  virtual Status leave(const std::string& /*scope*/, const Status& /*how*/) { return {}; }

  // The addresses of a connection to a store on another host; empty where there is none.
  struct Ends {
    std::string here, there;
  };
  virtual Ends ends() const { return {}; }
};

// For those who wait for something else meanwhile: an error once a rank has failed in the scope of that prefix.
Status look_for_failures(Store& store, const std::string& prefix);

// Refuses an empty or oversize key and an oversize value, naming the key.
Status check_sizes(std::string_view key, std::string_view value);
Status wait_timed_out(const std::string& key);

// For a job of one process; also for ranks that are threads of one process.
class LocalStore : public Store {
 public:
  Status put(const std::string& key, std::string_view value) override;
  Status put_if_absent(const std::string& key, std::string_view value) override;
  Status get(const std::string& key, std::string* value, bool* found) override;
  Status wait(const std::string& key, Deadline deadline, std::string* value) override;
  Status give(const std::string& key, int rank, std::string_view value) override;
  Status take(const std::string& key, int rank, std::string* value, bool* found) override;
  Status take_all(const std::string& key, int count, std::vector<std::string>* values, bool* found) override;
  Status wait_all(const std::string& key, int count, Deadline deadline, std::vector<std::string>* values) override;
  int first_missing(const std::string& key, int count) override;

 private:
  Mutex mutex_;
  std::condition_variable changed_;
  std::map<std::string, std::string> values_ RODA_GUARDED_BY(mutex_);
};

}  // namespace roda

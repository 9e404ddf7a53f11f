// The key-value store that processes meet over while a job starts.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "plugins/base/mutex.h"
#include "plugins/base/status.h"

namespace roda {

using Deadline = std::chrono::steady_clock::time_point;

// What a client says to the store (store_wire.h).
enum class StoreOp : std::uint8_t {
  kPut = 1,
  kGet,
  kPutIfAbsent,
  kEnter,
  kLeave,
  kGive,
  kTake,
  kTakeAll,
  kMissing,
  kRelease
};

// Any thread. Keys are short text; values are bytes. A second put replaces the first.
class Store {
 public:
  using Clock = std::chrono::steady_clock;
  static constexpr std::size_t kMaxKey = 512;
  static constexpr std::size_t kMaxValue = 64 * 1024;

  virtual ~Store() = default;

  Status put(const std::string& key, std::string_view value) { return tell(StoreOp::kPut, key, value); }
  // Does nothing when the key is there; get() or wait() tells whose value it is.
  Status put_if_absent(const std::string& key, std::string_view value) {
    return tell(StoreOp::kPutIfAbsent, key, value);
  }
  // Does not block. *found is false while nobody has put the key.
  Status get(const std::string& key, std::string* value, bool* found) {
    return ask({StoreOp::kGet, key}, std::nullopt, value, found);
  }
  // Blocks until the key is there; RODA_ERR_TIMEOUT at the deadline.
  Status wait(const std::string& key, Deadline deadline, std::string* value);

  // A gathering: each of some ranks gives a value under one key. Such keys are apart from the others.
  Status give(const std::string& key, int rank, std::string_view value) {
    return tell(StoreOp::kGive, key, value, rank);
  }
  // Does not block. What that rank gave.
  Status take(const std::string& key, int rank, std::string* value, bool* found) {
    return ask({StoreOp::kTake, key, rank}, std::nullopt, value, found);
  }
  // By rank, once all of `count` ranks have given theirs: waits for that until the deadline, without one it does not
  // block. When each of these has taken all, or released the gathering, it is gone; take() has no part in such a one.
  Status take_all(const std::string& key, int count, std::vector<std::string>* values, bool* found,
                  std::optional<Deadline> deadline = {});
  Status wait_all(const std::string& key, int count, Deadline deadline, std::vector<std::string>* values);
  // This rank, of `count` that have a part in the gathering, takes nothing of it any more.
  Status release(const std::string& key, int count) { return tell(StoreOp::kRelease, key, std::to_string(count)); }
  // The lowest of `count` ranks that has not given its value, -1: all have, or it can't be told. Blocks for a round
  // trip.
  int first_missing(const std::string& key, int count);

  // A rank comes to where the keys begin with "<scope>/", and leaves it. Where it fails, or ends before it has left,
  // all who wait there for keys that nobody has put get that as their error; the first one stays. In a job of one
  // process, which ends as a whole, nobody need be told.
  Status enter(const std::string& scope, int rank) { return tell(StoreOp::kEnter, scope, std::to_string(rank)); }
  Status leave(const std::string& scope, const Status& how);

  // The addresses of a connection to a store on another host; empty where there is none.
  struct Ends {
    std::string here, there;
  };
  virtual Ends ends() const { return {}; }

 protected:
  struct Question {
    StoreOp op;  // kGet, kTake, kTakeAll or kMissing
    std::string key;
    int number = 0;  // of kTake: the rank; of the last two: how many ranks
  };
  // What is not answered. `rank`: of kGive.
  virtual Status tell(StoreOp op, const std::string& key, std::string_view value, int rank = 0) = 0;
  // Without a deadline it does not block. *found is false where there is no answer by then.
  virtual Status ask(const Question& question, std::optional<Deadline> deadline, std::string* answer, bool* found) = 0;
};

// For those who wait for something else meanwhile: an error once a rank has failed in the scope of that prefix.
Status look_for_failures(Store& store, const std::string& prefix);

// Refuses an empty or oversize key and an oversize value, naming the key.
Status check_sizes(std::string_view key, std::string_view value);

// For a job of one process; also for ranks that are threads of one process.
class LocalStore : public Store {
 protected:
  Status tell(StoreOp op, const std::string& key, std::string_view value, int rank = 0) override;
  Status ask(const Question& question, std::optional<Deadline> deadline, std::string* answer, bool* found) override;

 private:
  bool answer(const Question& question, std::string* answer) const RODA_REQUIRES(mutex_);

  Mutex mutex_;
  std::condition_variable changed_;
  std::map<std::pair<std::string, int>, std::string> values_ RODA_GUARDED_BY(mutex_);  // the rank: of what was given
};

}  // namespace roda

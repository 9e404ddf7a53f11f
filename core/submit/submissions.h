// The program's wishes that are not fulfilled yet: operations from their submission to their end, and process sets that
// come and go.
//
// Any thread; locks itself.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <string_view>
#include <vector>

#include "core/negotiate/negotiator.h"
#include "core/submit/announcer.h"
#include "core/submit/operation.h"
#include "plugins/base/coarse_clock.h"
#include "plugins/base/mutex.h"
#include "plugins/base/status.h"

namespace roda::execute {
class LentMemory;
}

namespace roda::engine {

// A thread that waits for a process set to come or go, on that thread's stack. A set may go or come again under the
// same id before the thread looks.
struct SetChange {
  std::vector<std::int32_t> ranks;  // of a set to be added; empty: one is to be removed
  std::int32_t id = -1;             // of the set to be removed; of the added one, once it is done
  bool is_done = false;
  CoarseClock::time_point asked;  // by add_change()
};

// A thread that waits for memory of a transport's, on that thread's stack.
struct Loan {
  std::int32_t set;
  std::size_t bytes;
  execute::LentMemory* memory = nullptr;
  Status status;
  std::atomic<bool> is_over{false};

  void end(const Status& how) {
    status = how;
    is_over.store(true, std::memory_order_release);
  }
};

class Submissions {
 public:
  // `rules`: of buckets on devices.
  explicit Submissions(const negotiate::BucketRules& rules = {}) : producers_(rules) {}

  // --- what threads ask for; each fails once nothing can be asked for any more ---
  // All operations of the handle, or none. Those that come in turn are taken once their name is free.
  Status add(HandleState* handle, std::int32_t rank);
  // Its end will be told. False: it has ended.
  bool then(HandleState* handle, const Continuation& continuation);
  // RODA_ERR_INVALID: the set to be added is there, or the one to be removed is not.
  Status add_change(SetChange* change);
  // Whether the change is done, or never will be.
  bool is_over(const SetChange& change) const;
  Status end_change(const SetChange* change);
  // A thread waits for the handle. False: nobody need be told, it is done or its tensors are in host memory.
  bool await(const HandleState& handle);
  // Its end comes, whatever happens.
  Status add_loan(Loan* loan);
  void ask_for_shutdown(const std::string& how);
  bool is_to_end() const;  // shutdown was asked for here
  Continuations& continuations() { return continuations_; }
  Producers& producers() { return producers_; }

  // --- process sets ---
  std::vector<std::int32_t> set_ranks(std::int32_t id) const;
  std::vector<std::int32_t> set_ids() const;
  bool find_member(std::int32_t id, std::int32_t rank, int* size, int* position) const;
  // Whether there is a set of these ranks. *is_leaving: somebody has asked to remove it.
  bool has_set(const std::vector<std::int32_t>& ranks, bool* is_leaving) const;

  // --- the holder of the baton ---
  // Something was asked for since the last take().
  bool has_news(std::memory_order order = std::memory_order_seq_cst) const {
    return submitted_.load(order) != nullptr || has_other_news_.load(order);
  }
  struct News {
    std::vector<Operation*> operations;
    std::vector<std::vector<std::int32_t>> sets_to_add;
    std::vector<std::int32_t> sets_to_remove;
    std::vector<Loan*> loans;
    std::vector<TensorKind> awaited;
    std::string shutdown;  // how this rank came to it; empty: it did not ask
  };
  void take(News* news);
  Operation* find(std::int32_t set, std::string_view name) const;
  // The operations of a launch, one per tensor, and those under its bits are no longer announced. Null: this rank has
  // joined. `operations` is cleared first.
  void take_launched(const negotiate::Launch& launch, Announcer* announcer, std::vector<Operation*>* operations) const;
  // Since when the oldest operation waits that was not launched, a change of process sets, or the shutdown; max():
  // nothing does.
  CoarseClock::time_point waits_since() const;
  void end(const std::vector<Operation*>& operations, const Status& status);
  void end_all(const Status& status);
  // Nothing can be asked for any more; the first reason stays. What was asked for and not launched is returned.
  std::vector<Operation*> close(const Status& reason);
  // The reason that close() was given; OK before. Any thread.
  Status closed() const {
    const MutexLock lock(mutex_);
    return closed_;
  }
  void set_opened(std::int32_t id, const std::vector<std::int32_t>& ranks);
  // Operations of the set that were not launched are returned.
  std::vector<Operation*> set_closed(std::int32_t id);

 private:
  // --- operations in flight, by process set and name. Each lies in its bucket by itself: none costs an allocation ---
  Operation* find_locked(std::int32_t set, std::string_view name, std::size_t hash) const RODA_REQUIRES(mutex_);
  // By its name_hash. False: there is another one of its name.
  bool enter_locked(Operation* op) RODA_REQUIRES(mutex_);
  // Nothing happens where it never had its name.
  void leave_locked(const Operation& op) RODA_REQUIRES(mutex_);
  void each_locked(auto use) const RODA_REQUIRES(mutex_) {
    for (Operation* op : in_flight_) {
      for (; op != nullptr; op = op->next_by_name) use(op);
    }
  }
  static std::size_t bucket_of(std::int32_t set, std::size_t hash) {
    return (hash ^ static_cast<std::size_t>(set) * 0x9e3779b97f4a7c15u) % kBuckets;
  }
  static constexpr std::size_t kBuckets = 1024;

  void enter_next_locked(const Operation& ended) RODA_REQUIRES(mutex_);
  // From the latest to the earliest, by next_submitted.
  void submit_locked(Operation* latest, Operation* earliest) RODA_REQUIRES(mutex_);
  bool has_set_locked(const std::vector<std::int32_t>& ranks, bool* is_leaving) const RODA_REQUIRES(mutex_);
  void end_locked(Operation* op, const Status& status) RODA_REQUIRES(mutex_);
  // Operations whose turn has not come will not get one.
  std::vector<Operation*> not_launched(const std::function<bool(std::int32_t)>& of_set) RODA_REQUIRES(mutex_);

  Continuations continuations_;
  Producers producers_;
  mutable Mutex mutex_;
  News news_ RODA_GUARDED_BY(mutex_);  // but for the operations
  std::vector<SetChange*> changes_ RODA_GUARDED_BY(mutex_);
  std::vector<Operation*> in_flight_ RODA_GUARDED_BY(mutex_) = std::vector<Operation*>(kBuckets);
  std::deque<Operation*> in_turn_ RODA_GUARDED_BY(mutex_);  // whose name another one has, in the order of submission
  std::map<std::int32_t, std::vector<std::int32_t>> sets_ RODA_GUARDED_BY(mutex_);
  Status closed_ RODA_GUARDED_BY(mutex_);  // why nothing can be asked for
  CoarseClock::time_point to_end_since_ RODA_GUARDED_BY(mutex_) = CoarseClock::time_point::max();
  // Written under mutex_, read by anybody. The holder of the baton takes operations without it.
  std::atomic<bool> has_other_news_{false};
  std::atomic<Operation*> submitted_{nullptr};  // the latest, and before it by next_submitted
};

}  // namespace roda::engine

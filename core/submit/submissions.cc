#include "core/submit/submissions.h"

#include <algorithm>
#include <functional>
#include <ranges>
#include <utility>

#include "plugins/base/invariant.h"

namespace roda::engine {

Operation* Submissions::find_locked(std::int32_t set, std::string_view name, std::size_t hash) const {
  Operation* op = in_flight_[bucket_of(set, hash)];
  while (op != nullptr && (op->name_hash != hash || op->request.set != set || op->request.name != name)) {
    op = op->next_by_name;
  }
  return op;
}

bool Submissions::enter_locked(Operation* op) {
  if (find_locked(op->request.set, op->request.name, op->name_hash) != nullptr) return false;
  Operation*& bucket = in_flight_[bucket_of(op->request.set, op->name_hash)];
  op->next_by_name = std::exchange(bucket, op);
  return true;
}

void Submissions::leave_locked(const Operation& op) {
  Operation** place = &in_flight_[bucket_of(op.request.set, op.name_hash)];
  while (*place != nullptr && *place != &op) place = &(*place)->next_by_name;
  if (*place != nullptr) *place = op.next_by_name;
}

void Submissions::submit_locked(Operation* latest, Operation* earliest) {
  earliest->next_submitted = submitted_.load(std::memory_order_relaxed);
  while (!submitted_.compare_exchange_weak(earliest->next_submitted, latest, std::memory_order_seq_cst)) {
  }
}

void Submissions::enter_next_locked(const Operation& ended) {
  const auto next = std::ranges::find_if(in_turn_, [&ended](const Operation* op) {
    return op->name_hash == ended.name_hash && op->request.set == ended.request.set &&
           op->request.name == ended.request.name;
  });
  if (next == in_turn_.end() || !enter_locked(*next)) return;
  submit_locked(*next, *next);
  in_turn_.erase(next);
}

Status Submissions::add(HandleState* handle, std::int32_t rank) {
  const auto now = CoarseClock::now();
  for (Operation& op : handle->operations) {
    op.request.rank = rank;
    op.submitted = now;
    op.name_hash = std::hash<std::string_view>{}(op.request.name);
  }
  const MutexLock lock(mutex_);
  if (!closed_.ok()) return closed_;
  Operation* latest = nullptr;
  Operation* earliest = nullptr;
  for (Operation& op : handle->operations) {
    if (enter_locked(&op)) {
      if (earliest == nullptr) earliest = &op;
      op.next_submitted = std::exchange(latest, &op);
      continue;
    }
    // Twice in one group, each would wait for the other.
    const bool is_twice = std::any_of(handle->operations.data(), &op, [&op](const Operation& other) {
      return other.name_hash == op.name_hash && other.request.name == op.request.name;
    });
    if (op.in_turn && !is_twice) {
      in_turn_.push_back(&op);
      continue;
    }
    // All or none: those of this group that were entered before go out again.
    for (Operation& entered : handle->operations) {
      if (&entered == &op) break;
      if (std::erase(in_turn_, &entered) == 0) leave_locked(entered);
    }
    return Status::invalid(
        "Requested to allreduce, allgather, or broadcast a tensor with the same name as another tensor that is "
        "currently being processed: '" +
        op.request.name + "'. Wait for the first one, or give the tensors different names.");
  }
  if (earliest != nullptr) submit_locked(latest, earliest);
  return {};
}

bool Submissions::then(HandleState* handle, const Continuation& continuation) {
  const MutexLock lock(mutex_);
  if (handle->done()) return false;
  handle->then = continuation;
  return true;
}

Status Submissions::add_change(SetChange* change) {
  const MutexLock lock(mutex_);
  if (!closed_.ok()) return closed_;
  const bool adds = !change->ranks.empty();
  const auto is_same = [&](const SetChange* other) {
    return !other->is_done && other->ranks == change->ranks && (adds || other->id == change->id);
  };
  // Another thread may ask for the same: it is agreed upon once, and both get its end.
  const bool is_asked_for = std::ranges::any_of(changes_, is_same);
  if (!is_asked_for) {
    bool is_leaving = false;
    if (adds ? has_set_locked(change->ranks, &is_leaving) && !is_leaving : !sets_.contains(change->id)) {
      return Status::invalid(adds ? "there is such a process set" : "there is no such process set");
    }
    if (adds) {
      news_.sets_to_add.push_back(change->ranks);
    } else {
      news_.sets_to_remove.push_back(change->id);
    }
  }
  change->asked = CoarseClock::now();
  changes_.push_back(change);
  has_other_news_.store(true, std::memory_order_seq_cst);
  return {};
}

bool Submissions::is_over(const SetChange& change) const {
  const MutexLock lock(mutex_);
  return change.is_done || !closed_.ok();
}

Status Submissions::end_change(const SetChange* change) {
  const MutexLock lock(mutex_);
  std::erase(changes_, change);
  return change->is_done ? Status() : closed_;
}

bool Submissions::await(const HandleState& handle) {
  const negotiate::Request& first = handle.operations.front().request;
  if (first.device < 0 || handle.done()) return false;
  std::vector<TensorKind> kinds;
  for (const Operation& op : handle.operations) {
    const TensorKind kind = TensorKind::of(op.request);
    if (!kinds.empty() && kinds.back() == kind) continue;
    kinds.push_back(kind);
    static_cast<void>(producers_.end(kind));  // an error is met again by the launch
  }
  const MutexLock lock(mutex_);
  news_.awaited.insert(news_.awaited.end(), kinds.begin(), kinds.end());
  has_other_news_.store(true, std::memory_order_seq_cst);
  return true;
}

Status Submissions::add_loan(Loan* loan) {
  const MutexLock lock(mutex_);
  if (!closed_.ok()) return closed_;
  news_.loans.push_back(loan);
  has_other_news_.store(true, std::memory_order_seq_cst);
  return {};
}

void Submissions::ask_for_shutdown(const std::string& how) {
  const MutexLock lock(mutex_);
  news_.shutdown = how;
  to_end_since_ = std::min(to_end_since_, CoarseClock::now());
  has_other_news_.store(true, std::memory_order_seq_cst);
}

bool Submissions::is_to_end() const {
  const MutexLock lock(mutex_);
  return to_end_since_ != CoarseClock::time_point::max();
}

std::vector<std::int32_t> Submissions::set_ranks(std::int32_t id) const {
  const MutexLock lock(mutex_);
  const auto it = sets_.find(id);
  return it == sets_.end() ? std::vector<std::int32_t>() : it->second;
}

std::vector<std::int32_t> Submissions::set_ids() const {
  const MutexLock lock(mutex_);
  std::vector<std::int32_t> ids;
  for (const auto& [id, ranks] : sets_) ids.push_back(id);
  return ids;
}

bool Submissions::find_member(std::int32_t id, std::int32_t rank, int* size, int* position) const {
  const MutexLock lock(mutex_);
  const auto it = sets_.find(id);
  if (it == sets_.end()) return false;
  const auto& ranks = it->second;
  const auto at = std::ranges::lower_bound(ranks, rank);
  *size = static_cast<int>(ranks.size());
  *position = at != ranks.end() && *at == rank ? static_cast<int>(at - ranks.begin()) : -1;
  return true;
}

bool Submissions::has_set(const std::vector<std::int32_t>& ranks, bool* is_leaving) const {
  const MutexLock lock(mutex_);
  return has_set_locked(ranks, is_leaving);
}

bool Submissions::has_set_locked(const std::vector<std::int32_t>& ranks, bool* is_leaving) const {
  const auto set = std::ranges::find_if(sets_, [&](const auto& s) { return s.second == ranks; });
  const bool found = set != sets_.end();
  *is_leaving = found && closed_.ok() && std::ranges::any_of(changes_, [&](const SetChange* change) {
                  return change->ranks.empty() && change->id == set->first && !change->is_done;
                });
  return found;
}

// Process sets, loans and the shutdown come before the operations: a thread that asks for one has waited for what it
// submitted before.
void Submissions::take(News* news) {
  std::vector<Operation*> operations = std::move(news->operations);
  operations.clear();
  news->sets_to_add.clear();
  news->sets_to_remove.clear();
  news->loans.clear();
  news->awaited.clear();
  news->shutdown.clear();
  if (has_other_news_.load(std::memory_order_seq_cst)) {
    const MutexLock lock(mutex_);
    has_other_news_.store(false, std::memory_order_relaxed);
    std::swap(*news, news_);
  }
  Operation* op = submitted_.exchange(nullptr, std::memory_order_seq_cst);
  for (; op != nullptr; op = op->next_submitted) operations.push_back(op);
  std::ranges::reverse(operations);
  news->operations = std::move(operations);
}

Operation* Submissions::find(std::int32_t set, std::string_view name) const {
  const std::size_t hash = std::hash<std::string_view>{}(name);
  const MutexLock lock(mutex_);
  return find_locked(set, name, hash);
}

void Submissions::take_launched(const negotiate::Launch& launch, Announcer* announcer,
                                std::vector<Operation*>* operations) const {
  operations->clear();
  for (const negotiate::AgreedPtr& tensor : launch.tensors) {
    Operation* op =
        tensor->cache_bit < 0 ? nullptr : announcer->take_announced(launch.set, tensor->cache_bit, tensor->name);
    if (op == nullptr) op = find(launch.set, tensor->name);
    if (op != nullptr) op->launched = true;
    operations->push_back(op);
  }
}

void Submissions::end_locked(Operation* op, const Status& status) {
  RODA_INVARIANT(op->handle->remaining.load(std::memory_order_relaxed) != 0, "an operation ends once");
  leave_locked(*op);
  if (!in_turn_.empty()) enter_next_locked(*op);
  HandleState* handle = op->handle;
  if (!status.ok() && handle->first_error.ok()) handle->first_error = status;
  const Continuation then = handle->then;
  // From here on the handle may be released and reused by its owner.
  const bool is_done = handle->remaining.fetch_sub(1, std::memory_order_acq_rel) == 1;
  if (is_done && then.call != nullptr) continuations_.ended(then);
}

void Submissions::end(const std::vector<Operation*>& operations, const Status& status) {
  const MutexLock lock(mutex_);
  for (Operation* op : operations) {
    if (op != nullptr) end_locked(op, status);
  }
}

void Submissions::end_all(const Status& status) {
  const MutexLock lock(mutex_);
  std::vector<Operation*> all(in_turn_.begin(), in_turn_.end());
  in_turn_.clear();
  each_locked([&all](Operation* op) { all.push_back(op); });
  for (Operation* op : all) end_locked(op, status);
  submitted_.store(nullptr, std::memory_order_relaxed);
}

std::vector<Operation*> Submissions::not_launched(const std::function<bool(std::int32_t)>& of_set) {
  std::vector<Operation*> pending;
  const auto is_ended = [&](Operation* op) {
    if (!of_set(op->request.set)) return false;
    pending.push_back(op);
    return true;
  };
  std::erase_if(in_turn_, is_ended);
  each_locked([&](Operation* op) {
    if (of_set(op->request.set) && !op->launched) pending.push_back(op);
  });
  return pending;
}

CoarseClock::time_point Submissions::waits_since() const {
  const MutexLock lock(mutex_);
  CoarseClock::time_point oldest = to_end_since_;
  each_locked([&oldest](const Operation* op) {
    if (!op->launched) oldest = std::min(oldest, op->submitted);
  });
  for (const SetChange* change : changes_) {
    if (!change->is_done) oldest = std::min(oldest, change->asked);
  }
  return oldest;
}

std::vector<Operation*> Submissions::close(const Status& reason) {
  const MutexLock lock(mutex_);
  if (closed_.ok()) closed_ = reason;
  submitted_.store(nullptr, std::memory_order_relaxed);
  for (Loan* loan : news_.loans) loan->end(closed_);
  news_.loans.clear();
  return not_launched([](std::int32_t) { return true; });
}

void Submissions::set_opened(std::int32_t id, const std::vector<std::int32_t>& ranks) {
  const MutexLock lock(mutex_);
  sets_[id] = ranks;
  for (SetChange* change : changes_) {
    if (change->is_done || change->ranks != ranks) continue;
    change->id = id;
    change->is_done = true;
  }
}

std::vector<Operation*> Submissions::set_closed(std::int32_t id) {
  const MutexLock lock(mutex_);
  sets_.erase(id);
  for (SetChange* change : changes_) {
    if (change->ranks.empty()) change->is_done = change->is_done || change->id == id;
  }
  std::vector<Operation*> kept;
  for (Operation* op = submitted_.exchange(nullptr, std::memory_order_acquire); op != nullptr;) {
    Operation* const before = op->next_submitted;
    if (op->request.set != id) kept.push_back(op);
    op = before;
  }
  for (const auto& op : kept | std::views::reverse) submit_locked(op, op);
  return not_launched([id](std::int32_t set) { return set == id; });
}

}  // namespace roda::engine

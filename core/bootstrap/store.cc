#include "core/bootstrap/store.h"

#include <cstdlib>

#include "core/bootstrap/store_wire.h"
#include "plugins/base/format.h"

namespace roda {
namespace {

constexpr int kOfNobody = -1;  // the rank of what was put

Status wait_timed_out(const std::string& key) {
  return Status::timeout(roda::format("nobody has put '{}' in time", key));
}

}  // namespace

Status check_sizes(std::string_view key, std::string_view value) {
  if (key.empty() || key.size() > Store::kMaxKey) {
    return Status::invalid(
        roda::format("a key of {} bytes ('{:.40}...'): 1 to {} are allowed", key.size(), key, Store::kMaxKey));
  }
  if (value.size() > Store::kMaxValue) {
    return Status::invalid(
        roda::format("the value of '{}' has {} bytes; the bound is {}", key, value.size(), Store::kMaxValue));
  }
  return {};
}

Status look_for_failures(Store& store, const std::string& prefix) {
  std::string nothing;
  bool found = false;
  return store.get(prefix + "/a key that nobody puts", &nothing, &found);
}

Status Store::wait(const std::string& key, Deadline deadline, std::string* value) {
  bool found = false;
  RODA_RETURN_IF_ERROR(ask({StoreOp::kGet, key}, deadline, value, &found));
  return found ? Status() : wait_timed_out(key);
}

Status Store::take_all(const std::string& key, int count, std::vector<std::string>* values, bool* found,
                       std::optional<Deadline> deadline) {
  std::string text;
  RODA_RETURN_IF_ERROR(ask({StoreOp::kTakeAll, key, count}, deadline, &text, found));
  if (!*found || store_wire::values_of(text, count, values)) return {};
  return Status::invalid(roda::format("the rendezvous sent a malformed gathering for '{}'", key));
}

Status Store::wait_all(const std::string& key, int count, Deadline deadline, std::vector<std::string>* values) {
  bool found = false;
  RODA_RETURN_IF_ERROR(take_all(key, count, values, &found, deadline));
  return found ? Status() : wait_timed_out(key);
}

int Store::first_missing(const std::string& key, int count) {
  std::string rank;
  bool found = false;
  const Status status = ask({StoreOp::kMissing, key, count}, Clock::now() + std::chrono::seconds(1), &rank, &found);
  return found ? std::atoi(rank.c_str()) : status.rank();
}

Status Store::leave(const std::string& scope, const Status& how) {
  return tell(StoreOp::kLeave, scope, how.ok() ? "" : store_wire::text_of(how));
}

Status LocalStore::tell(StoreOp op, const std::string& key, std::string_view value, int rank) {
  if (op == StoreOp::kEnter || op == StoreOp::kLeave || op == StoreOp::kRelease) return {};
  RODA_RETURN_IF_ERROR(check_sizes(key, value));
  const MutexLock lock(mutex_);
  const auto [at, is_new] = values_.try_emplace({key, op == StoreOp::kGive ? rank : kOfNobody}, value);
  if (!is_new && op != StoreOp::kPutIfAbsent) at->second = value;
  changed_.notify_all();
  return {};
}

Status LocalStore::ask(const Question& question, std::optional<Deadline> deadline, std::string* text, bool* found) {
  MutexLock lock(mutex_);
  *found = changed_.wait_until(lock.held(), deadline.value_or(Deadline()), [&] {
    mutex_.assert_held();
    return answer(question, text);
  });
  return {};
}

bool LocalStore::answer(const Question& question, std::string* answer) const {
  if (question.op == StoreOp::kGet || question.op == StoreOp::kTake) {
    const auto at = values_.find({question.key, question.op == StoreOp::kTake ? question.number : kOfNobody});
    if (at != values_.end()) *answer = at->second;
    return at != values_.end();
  }
  std::map<int, std::string> given;
  for (int rank = 0; rank < question.number; ++rank) {
    const auto at = values_.find({question.key, rank});
    const bool is_missing = at == values_.end();
    if (is_missing) *answer = std::to_string(rank);
    if (is_missing) return question.op == StoreOp::kMissing;
    given.emplace(rank, at->second);
  }
  *answer = question.op == StoreOp::kTakeAll ? store_wire::text_of(given) : "-1";
  return true;
}

}  // namespace roda

#include "core/bootstrap/store.h"
#include "plugins/base/format.h"

namespace roda {

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

Status wait_timed_out(const std::string& key) {
  return Status::timeout(roda::format("nobody has put '{}' in time", key));
}

Status look_for_failures(Store& store, const std::string& prefix) {
  std::string nothing;
  bool found = false;
  return store.get(prefix + "/a key that nobody puts", &nothing, &found);
}

Status LocalStore::put(const std::string& key, std::string_view value) {
  RODA_RETURN_IF_ERROR(check_sizes(key, value));
  const MutexLock lock(mutex_);
  values_.insert_or_assign(key, std::string(value));
  changed_.notify_all();
  return {};
}

Status LocalStore::put_if_absent(const std::string& key, std::string_view value) {
  RODA_RETURN_IF_ERROR(check_sizes(key, value));
  const MutexLock lock(mutex_);
  if (values_.try_emplace(key, value).second) changed_.notify_all();
  return {};
}

Status LocalStore::get(const std::string& key, std::string* value, bool* found) {
  const MutexLock lock(mutex_);
  auto at = values_.find(key);
  *found = at != values_.end();
  if (*found) *value = at->second;
  return {};
}

Status LocalStore::wait(const std::string& key, Deadline deadline, std::string* value) {
  MutexLock lock(mutex_);
  const auto is_there = [&] {
    mutex_.assert_held();
    return values_.contains(key);
  };
  if (!changed_.wait_until(lock.held(), deadline, is_there)) return wait_timed_out(key);
  *value = values_.at(key);
  return {};
}

Status LocalStore::give(const std::string& key, int rank, std::string_view value) {
  RODA_RETURN_IF_ERROR(check_sizes(key, value));
  const MutexLock lock(mutex_);
  gatherings_[key].insert_or_assign(rank, std::string(value));
  changed_.notify_all();
  return {};
}

Status LocalStore::take(const std::string& key, int rank, std::string* value, bool* found) {
  const MutexLock lock(mutex_);
  const auto& given = gatherings_[key];
  const auto at = given.find(rank);
  *found = at != given.end();
  if (*found) *value = at->second;
  return {};
}

bool LocalStore::is_complete(const std::string& key, int count) const {
  const auto at = gatherings_.find(key);
  return at != gatherings_.end() && at->second.size() == static_cast<std::size_t>(count);
}

Status LocalStore::take_all(const std::string& key, int count, std::vector<std::string>* values, bool* found) {
  const Status status = wait_all(key, count, Clock::now(), values);
  *found = status.ok();
  return {};
}

Status LocalStore::wait_all(const std::string& key, int count, Deadline deadline, std::vector<std::string>* values) {
  MutexLock lock(mutex_);
  const auto are_there = [&] {
    mutex_.assert_held();
    return is_complete(key, count);
  };
  if (!changed_.wait_until(lock.held(), deadline, are_there)) return wait_timed_out(key);
  values->clear();
  for (const auto& [rank, value] : gatherings_.at(key)) values->push_back(value);
  return {};
}

int LocalStore::first_missing(const std::string& key, int count) {
  const MutexLock lock(mutex_);
  const auto& given = gatherings_[key];
  for (int rank = 0; rank < count; ++rank) {
    if (!given.contains(rank)) return rank;
  }
  return -1;
}

}  // namespace roda

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

namespace {

// What one rank gives to a gathering is a value as others are, under a key that nobody else has.
std::string part_of(const std::string& key, int rank) { return roda::format("{} of rank {}", key, rank); }

}  // namespace

Status LocalStore::give(const std::string& key, int rank, std::string_view value) {
  return LocalStore::put(part_of(key, rank), value);
}

Status LocalStore::take(const std::string& key, int rank, std::string* value, bool* found) {
  return LocalStore::get(part_of(key, rank), value, found);
}

Status LocalStore::take_all(const std::string& key, int count, std::vector<std::string>* values, bool* found) {
  *found = wait_all(key, count, Clock::now(), values).ok();
  return {};
}

Status LocalStore::wait_all(const std::string& key, int count, Deadline deadline, std::vector<std::string>* values) {
  std::vector<std::string> all(static_cast<std::size_t>(count));
  for (int rank = 0; rank < count; ++rank) {
    RODA_RETURN_IF_ERROR(LocalStore::wait(part_of(key, rank), deadline, &all[static_cast<std::size_t>(rank)]));
  }
  *values = std::move(all);
  return {};
}

int LocalStore::first_missing(const std::string& key, int count) {
  const MutexLock lock(mutex_);
  int rank = 0;
  while (rank < count && values_.contains(part_of(key, rank))) ++rank;
  return rank < count ? rank : -1;
}

}  // namespace roda

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
  std::lock_guard lock(mutex_);
  values_.insert_or_assign(key, std::string(value));
  changed_.notify_all();
  return {};
}

Status LocalStore::put_if_absent(const std::string& key, std::string_view value) {
  RODA_RETURN_IF_ERROR(check_sizes(key, value));
  std::lock_guard lock(mutex_);
  if (values_.try_emplace(key, value).second) changed_.notify_all();
  return {};
}

Status LocalStore::get(const std::string& key, std::string* value, bool* found) {
  std::lock_guard lock(mutex_);
  auto at = values_.find(key);
  *found = at != values_.end();
  if (*found) *value = at->second;
  return {};
}

Status LocalStore::wait(const std::string& key, Clock::time_point deadline, std::string* value) {
  std::unique_lock lock(mutex_);
  if (!changed_.wait_until(lock, deadline, [&] { return values_.contains(key); })) return wait_timed_out(key);
  *value = values_.at(key);
  return {};
}

Status LocalStore::remove(const std::string& key) {
  std::lock_guard lock(mutex_);
  values_.erase(key);
  return {};
}

Status LocalStore::clear(const std::string& prefix) {
  std::lock_guard lock(mutex_);
  std::erase_if(values_, [&](const auto& entry) { return entry.first.starts_with(prefix); });
  return {};
}

}  // namespace roda

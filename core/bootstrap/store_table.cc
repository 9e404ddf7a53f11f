#include "core/bootstrap/store_table.h"

#include "plugins/base/format.h"

namespace roda {

Status StoreTable::reserve(std::size_t bytes, std::size_t freed) {
  if (bytes > max_bytes_ - bytes_ + freed) {
    return Status::no_memory(roda::format("the store is full: it holds {} of {} bytes", bytes_, max_bytes_));
  }
  bytes_ += bytes - freed;
  return {};
}

Status StoreTable::put(std::string_view key, std::string_view value, std::vector<Waiter>* woken) {
  auto old = values_.find(key);
  std::size_t freed = old != values_.end() ? old->first.size() + old->second.size() + kOverhead : 0;
  RODA_RETURN_IF_ERROR(reserve(key.size() + value.size() + kOverhead, freed));
  values_.insert_or_assign(std::string(key), std::string(value));
  auto [first, last] = waiters_.equal_range(key);
  for (auto at = first; at != last; ++at) {
    woken->push_back(at->second);
    bytes_ -= at->first.size() + kOverhead;
  }
  waiters_.erase(first, last);
  return {};
}

Status StoreTable::get(std::string_view key, Waiter waiter, const std::string** value) {
  auto at = values_.find(key);
  *value = at != values_.end() ? &at->second : nullptr;
  if (*value != nullptr) return {};
  RODA_RETURN_IF_ERROR(reserve(key.size() + kOverhead, 0));
  waiters_.emplace(key, waiter);
  return {};
}

void StoreTable::remove(std::string_view key) {
  auto at = values_.find(key);
  if (at == values_.end()) return;
  bytes_ -= at->first.size() + at->second.size() + kOverhead;
  values_.erase(at);
}

void StoreTable::clear(std::string_view prefix) {
  auto at = values_.lower_bound(prefix);
  while (at != values_.end() && at->first.starts_with(prefix)) {
    bytes_ -= at->first.size() + at->second.size() + kOverhead;
    at = values_.erase(at);
  }
}

std::vector<StoreTable::Waiter> StoreTable::take_waiters(std::string_view prefix) {
  std::vector<Waiter> taken;
  auto at = waiters_.lower_bound(prefix);
  while (at != waiters_.end() && at->first.starts_with(prefix)) {
    taken.push_back(at->second);
    bytes_ -= at->first.size() + kOverhead;
    at = waiters_.erase(at);
  }
  return taken;
}

void StoreTable::forget_waiters(std::uint64_t connection) {
  std::erase_if(waiters_, [&](const auto& entry) {
    if (entry.second.connection != connection) return false;
    bytes_ -= entry.first.size() + kOverhead;
    return true;
  });
}

}  // namespace roda

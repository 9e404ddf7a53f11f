// What a store's server holds: keys with values, gatherings, and who waits for what is not there yet. No I/O, no
// threads.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/bootstrap/store_wire.h"
#include "plugins/base/format.h"
#include "plugins/base/status.h"

namespace roda {

class StoreTable {
 public:
  struct Waiter {
    std::uint64_t connection;
    std::uint32_t id;
    friend bool operator==(const Waiter&, const Waiter&) = default;
  };

  // Everything held, keys and waiters included, stays under max_bytes.
  explicit StoreTable(std::size_t max_bytes) : max_bytes_(max_bytes) {}

  // A failure leaves the old value. *woken: who waited for the key; they are forgotten here.
  Status put(std::string_view key, std::string_view value, std::vector<Waiter>* woken) {
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

  bool holds(std::string_view key) const { return values_.contains(key); }
  // The value, or null after the waiter was noted.
  Status get(std::string_view key, Waiter waiter, const std::string** value) {
    auto at = values_.find(key);
    *value = at != values_.end() ? &at->second : nullptr;
    if (*value != nullptr) return {};
    RODA_RETURN_IF_ERROR(reserve(key.size() + kOverhead, 0));
    waiters_.emplace(key, waiter);
    return {};
  }

  // Gatherings (store.h). *woken: who waited for that rank's value; *complete: who waited for all, when all are there.
  Status give(std::string_view key, int rank, std::string_view value, std::vector<Waiter>* woken,
              std::vector<Waiter>* complete) {
    Gathering* g = nullptr;
    RODA_RETURN_IF_ERROR(gathering(key, value.size() + kOverhead, &g));
    if (!g->text.empty()) return {};
    g->values.insert_or_assign(rank, std::string(value));
    take_waiters(g, woken, [&](const auto& entry) { return entry.second == rank; });
    if (static_cast<int>(g->values.size()) == g->count) {
      g->text = store_wire::text_of(std::exchange(g->values, {}));
      take_waiters(g, complete, [](const auto&) { return true; });
    }
    return {};
  }

  Status take(std::string_view key, int rank, Waiter waiter, const std::string** value) {
    *value = nullptr;
    if (const auto at = gatherings_.find(key); at != gatherings_.end()) {
      if (const auto given = at->second.values.find(rank); given != at->second.values.end()) *value = &given->second;
    }
    return *value != nullptr ? Status() : wait(key, rank, waiter);
  }

  // All values as one text (store_wire.h), made once; or null after the waiter was noted. Valid until the last of
  // `count` ranks has been handed the end of it, or released it.
  Status take_all(std::string_view key, int count, Waiter waiter, const std::string** text) {
    *text = nullptr;
    Gathering* g = nullptr;
    RODA_RETURN_IF_ERROR(gathering(key, 0, &g));
    g->count = count;
    if (g->text.empty() && static_cast<int>(g->values.size()) == count) {
      g->text = store_wire::text_of(std::exchange(g->values, {}));
    }
    if (g->text.empty()) return wait(key, kAll, waiter);
    *text = &g->text;
    return {};
  }

  const std::string* text(std::string_view key) const {
    const auto at = gatherings_.find(key);
    return at != gatherings_.end() && !at->second.text.empty() ? &at->second.text : nullptr;
  }

  // By one of so many ranks; 0: of as many as somebody has asked for.
  void release(std::string_view key, int count = 0) {
    const auto at = gatherings_.find(key);
    if (at == gatherings_.end()) return;
    if (count > 0) at->second.count = count;
    if (++at->second.released < at->second.count) return;
    bytes_ -= at->second.bytes;
    gatherings_.erase(at);
  }

  // -1: none.
  int first_missing(std::string_view key, int count) const {
    const auto at = gatherings_.find(key);
    if (at == gatherings_.end()) return 0;
    if (!at->second.text.empty()) return -1;
    for (int rank = 0; rank < count; ++rank) {
      if (!at->second.values.contains(rank)) return rank;
    }
    return -1;
  }

  // Every key that begins so, with who waits there.
  void remove(std::string_view prefix) {
    static_cast<void>(take_waiters(prefix));
    auto at = values_.lower_bound(prefix);
    while (at != values_.end() && at->first.starts_with(prefix)) {
      bytes_ -= at->first.size() + at->second.size() + kOverhead;
      at = values_.erase(at);
    }
    auto g = gatherings_.lower_bound(prefix);
    while (g != gatherings_.end() && g->first.starts_with(prefix)) {
      bytes_ -= g->second.bytes;
      g = gatherings_.erase(g);
    }
  }

  void forget_waiters(std::uint64_t connection) {
    std::erase_if(waiters_, [&](const auto& entry) {
      if (entry.second.connection != connection) return false;
      bytes_ -= entry.first.size() + kOverhead;
      return true;
    });
    std::vector<Waiter> forgotten;
    for (auto& [key, g] : gatherings_) {
      take_waiters(&g, &forgotten, [&](const auto& entry) { return entry.first.connection == connection; });
    }
  }

  // Takes those out who wait for keys that begin so.
  std::vector<Waiter> take_waiters(std::string_view prefix) {
    std::vector<Waiter> taken;
    auto at = waiters_.lower_bound(prefix);
    while (at != waiters_.end() && at->first.starts_with(prefix)) {
      taken.push_back(at->second);
      bytes_ -= at->first.size() + kOverhead;
      at = waiters_.erase(at);
    }
    for (auto g = gatherings_.lower_bound(prefix); g != gatherings_.end() && g->first.starts_with(prefix); ++g) {
      take_waiters(&g->second, &taken, [](const auto&) { return true; });
    }
    return taken;
  }

  std::size_t bytes() const { return bytes_; }

 private:
  static constexpr std::size_t kOverhead = 96;  // of one entry, about

  static constexpr int kAll = -1;

  struct Gathering {
    std::map<int, std::string> values;  // until all are in the text
    int count = 0;                      // of ranks, once somebody has asked for all, or released it
    std::string text;
    int released = 0;                             // by as many ranks
    std::vector<std::pair<Waiter, int>> waiters;  // and for whose value, kAll
    std::size_t bytes = 0;                        // of bytes_
  };

  Status reserve(std::size_t bytes, std::size_t freed) {
    if (bytes > max_bytes_ - bytes_ + freed) {
      return Status::no_memory(roda::format("the store is full: it holds {} of {} bytes", bytes_, max_bytes_));
    }
    bytes_ += bytes - freed;
    return {};
  }

  // With room for so many bytes more.
  Status gathering(std::string_view key, std::size_t bytes, Gathering** out) {
    auto at = gatherings_.find(key);
    if (at == gatherings_.end()) bytes += key.size() + kOverhead;
    RODA_RETURN_IF_ERROR(reserve(bytes, 0));
    if (at == gatherings_.end()) at = gatherings_.try_emplace(std::string(key)).first;
    at->second.bytes += bytes;
    *out = &at->second;
    return {};
  }

  Status wait(std::string_view key, int rank, Waiter waiter) {
    Gathering* g = nullptr;
    RODA_RETURN_IF_ERROR(gathering(key, kOverhead, &g));
    g->waiters.emplace_back(waiter, rank);
    return {};
  }

  // Takes those out who wait for the gathering and for whom `which` holds.
  void take_waiters(Gathering* gathering, std::vector<Waiter>* taken, auto&& which) {
    const std::size_t count = std::erase_if(gathering->waiters, [&](const auto& entry) {
      if (!which(entry)) return false;
      taken->push_back(entry.first);
      return true;
    });
    gathering->bytes -= count * kOverhead;
    bytes_ -= count * kOverhead;
  }

  std::size_t max_bytes_;
  std::size_t bytes_ = 0;
  std::map<std::string, std::string, std::less<>> values_;
  std::multimap<std::string, Waiter, std::less<>> waiters_;
  std::map<std::string, Gathering, std::less<>> gatherings_;
};

}  // namespace roda

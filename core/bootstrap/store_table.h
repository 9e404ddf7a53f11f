// What a store's server holds: keys with values, and who waits for keys that are not there yet. No I/O, no threads.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

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
  Status put(std::string_view key, std::string_view value, std::vector<Waiter>* woken);
  bool holds(std::string_view key) const { return values_.contains(key); }
  // The value, or null after the waiter was noted.
  Status get(std::string_view key, Waiter waiter, const std::string** value);
  void remove(std::string_view key);
  void clear(std::string_view prefix);
  void forget_waiters(std::uint64_t connection);
  // Those who wait for keys that begin so; they are forgotten here.
  std::vector<Waiter> take_waiters(std::string_view prefix);

  std::size_t bytes() const { return bytes_; }

 private:
  static constexpr std::size_t kOverhead = 96;  // of one entry, about

  Status reserve(std::size_t bytes, std::size_t freed);

  std::size_t max_bytes_;
  std::size_t bytes_ = 0;
  std::map<std::string, std::string, std::less<>> values_;
  std::multimap<std::string, Waiter, std::less<>> waiters_;
};

}  // namespace roda

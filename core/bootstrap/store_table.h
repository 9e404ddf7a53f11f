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

  // Gatherings (store.h). *woken: who waited for that rank's value; *complete: who waited for all, when all are there.
  Status give(std::string_view key, int rank, std::string_view value, std::vector<Waiter>* woken,
              std::vector<Waiter>* complete);
  Status take(std::string_view key, int rank, Waiter waiter, const std::string** value);
  // All values as one text (store_wire.h), made once; or null after the waiter was noted. Valid until all `count` ranks
  // have been handed the end of it.
  Status take_all(std::string_view key, int count, Waiter waiter, const std::string** text);
  const std::string* text(std::string_view key) const;
  void handed_out(std::string_view key);
  // -1: none.
  int first_missing(std::string_view key, int count) const;

  // Every key that begins so, with who waits there.
  void remove(std::string_view prefix);

  void forget_waiters(std::uint64_t connection);
  // Those who wait for keys that begin so; they are forgotten here.
  std::vector<Waiter> take_waiters(std::string_view prefix);

  std::size_t bytes() const { return bytes_; }

 private:
  static constexpr std::size_t kOverhead = 96;  // of one entry, about

  static constexpr int kAll = -1;

  struct Gathering {
    std::map<int, std::string> values;  // until all are in the text
    int count = 0;                      // of ranks, once somebody has asked for all
    std::string text;
    int handed_out = 0;
    std::vector<std::pair<Waiter, int>> waiters;  // and for whose value, kAll
    std::size_t bytes = 0;                        // of bytes_
  };

  Status reserve(std::size_t bytes, std::size_t freed);
  Status gathering(std::string_view key, std::size_t bytes, Gathering** out);
  Status wait(std::string_view key, int rank, Waiter waiter);
  // Those of the gathering for which it holds: told, and forgotten.
  template <typename Which>
  void take_waiters(Gathering* gathering, std::vector<Waiter>* taken, Which&& which);

  std::size_t max_bytes_;
  std::size_t bytes_ = 0;
  std::map<std::string, std::string, std::less<>> values_;
  std::multimap<std::string, Waiter, std::less<>> waiters_;
  std::map<std::string, Gathering, std::less<>> gatherings_;
};

}  // namespace roda

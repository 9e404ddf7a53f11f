// What members of a group tell each other over roda_exchange, and the steps that its forming is made of, as state
// machines that never block.
#pragma once

#include <roda/abi/exchange.h>
#include <roda/sdk/error.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

namespace roda::sdk {

// One call of an exchange's entry: `entry` gets where its error goes. False: in progress. Throws Failure.
template <typename Entry>
bool is_through(Entry&& entry) {
  roda_error error{};
  error.struct_size = sizeof error;
  error.rank = -1;
  const std::int32_t code = entry(&error);
  if (code < 0) throw Failure(code, error.message, error.rank);
  return code == RODA_OK;
}

// What `member` put under the key, which has `bytes` bytes. False: it is not there yet. Throws Failure.
inline bool get_value(const roda_exchange& exchange, int member, const std::string& key, void* value,
                      std::size_t bytes) {
  char nothing = 0;
  std::size_t got = bytes;
  const auto entry = [&](roda_error* error) {
    return exchange.get(exchange.self, member, key.c_str(), bytes > 0 ? value : &nothing, &got, error);
  };
  if (!is_through(entry)) return false;
  if (got == bytes) return true;
  throw Failure(RODA_ERR_PRECONDITION, "member " + std::to_string(member) + " of the group published " +
                                           std::to_string(got) + " bytes under '" + key + "' where " +
                                           std::to_string(bytes) + " were expected: its plugin differs");
}

inline void put_value(const roda_exchange& exchange, const std::string& key, const void* value, std::size_t bytes) {
  is_through([&](roda_error* error) { return exchange.put(exchange.self, key.c_str(), value, bytes, error); });
}

// Every member puts one value; done when this rank has everyone's. All values have the same length, which may exceed
// the exchange's limit of 64 KiB. Start once, then test until true. With length 0 it is a barrier. One thread at a
// time; throws Failure.
class Allgather {
 public:
  static constexpr std::size_t kPartBytes = 60 * 1024;

  Allgather() = default;
  // `key` is unique within the group and its generation, and equal on all members.
  Allgather(const roda_exchange& exchange, int rank, int size, std::string key)
      : exchange_(exchange), rank_(rank), size_(size), key_(std::move(key)) {}

  void start(const void* value, std::size_t bytes) {
    bytes_ = bytes;
    parts_ = std::max<std::size_t>(1, (bytes + kPartBytes - 1) / kPartBytes);
    values_.resize(bytes * static_cast<std::size_t>(size_));
    const char* text = static_cast<const char*>(value);
    std::copy_n(text, bytes, values_.data() + bytes * static_cast<std::size_t>(rank_));
  }

  bool test() {
    for (; part_ < parts_; ++part_, peer_ = 0, is_put_ = false) {
      put();
      if (takes_all() ? !get_part() : !get_one_by_one()) return false;
    }
    return true;
  }

  // Of a short value: this member's is there for the others, and where test() follows, for itself.
  void put() {
    if (!std::exchange(is_put_, true)) put_value(exchange_, key(), place(rank_), length());
  }

  // After test() was true.
  const char* value(int rank) const { return values_.data() + bytes_ * static_cast<std::size_t>(rank); }
  template <typename Value>
  Value value_as(int rank) const {
    Value made;
    std::memcpy(&made, value(rank), sizeof made);
    return made;
  }
  // Before that: the lowest group rank whose value has not come, as far as it can be told. May block for a moment.
  std::vector<int> missing() const {
    if (part_ == parts_) return {};
    std::int32_t rank = peer_;
    if (takes_all()) get_value(exchange_, RODA_OF_MISSING, key(), &rank, sizeof rank);
    return rank < 0 ? std::vector<int>() : std::vector<int>{rank};
  }

 private:
  // The key of the part that is exchanged at the moment.
  std::string key() const { return parts_ == 1 ? key_ : key_ + '.' + std::to_string(part_); }
  std::size_t length() const { return std::min(kPartBytes, bytes_ - part_ * kPartBytes); }
  char* place(int rank) { return values_.data() + bytes_ * static_cast<std::size_t>(rank) + part_ * kPartBytes; }

  bool takes_all() const { return (exchange_.reserved & RODA_EXCHANGE_ALL) != 0; }

  bool get_part() {
    part_values_.resize(length() * static_cast<std::size_t>(size_));
    if (!get_value(exchange_, RODA_OF_ALL, key(), part_values_.data(), part_values_.size())) return false;
    for (int rank = 0; rank < size_; ++rank) {
      std::copy_n(part_values_.data() + length() * static_cast<std::size_t>(rank), length(), place(rank));
    }
    return true;
  }

  bool get_one_by_one() {
    for (; peer_ < size_; ++peer_) {
      if (peer_ != rank_ && !get_value(exchange_, peer_, key(), place(peer_), length())) return false;
    }
    return true;
  }

  roda_exchange exchange_{};
  int rank_ = 0;
  int size_ = 0;
  std::string key_;
  std::size_t bytes_ = 0;
  std::size_t parts_ = 0;
  std::size_t part_ = 0;
  bool is_put_ = false;  // this part
  int peer_ = 0;         // whose turn it is, where they are asked one by one
  std::vector<char> values_;
  std::vector<char> part_values_;
};

}  // namespace roda::sdk

// The steps that every group's forming is made of, over roda_exchange, as state machines that never block.
#pragma once

#include <roda/abi/host.h>
#include <roda/sdk/error.hpp>

#include <algorithm>
#include <cstddef>
#include <string>
#include <utility>
#include <vector>

namespace roda::sdk {

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
    if (bytes > 0) std::copy(text, text + bytes, values_.begin() + static_cast<std::ptrdiff_t>(bytes * index()));
  }

  bool test() {
    while (put_ < parts_) {
      if (!put_part(put_)) return false;
      ++put_;
    }
    while (peer_ < size_) {
      if (peer_ != rank_ && !get_part(peer_, part_)) return false;
      if (peer_ == rank_ || ++part_ == parts_) {
        ++peer_;
        part_ = 0;
      }
    }
    return true;
  }

  // After test() was true.
  const char* value(int rank) const { return values_.data() + bytes_ * static_cast<std::size_t>(rank); }
  // Before that: the lowest group rank whose value has not come.
  int waiting_for() const { return peer_; }

 private:
  std::size_t index() const { return static_cast<std::size_t>(rank_); }
  std::string key(std::size_t part) const { return parts_ == 1 ? key_ : key_ + '.' + std::to_string(part); }
  std::size_t part_length(std::size_t part) const { return std::min(kPartBytes, bytes_ - part * kPartBytes); }

  bool put_part(std::size_t part) {
    roda_error error{};
    error.struct_size = sizeof error;
    error.rank = -1;
    const char* from = values_.data() + bytes_ * index() + part * kPartBytes;
    const int32_t code = exchange_.put(exchange_.self, key(part).c_str(), from, part_length(part), &error);
    if (code < 0) throw Failure(code, error.message, error.rank);
    return code == RODA_OK;
  }

  bool get_part(int peer, std::size_t part) {
    roda_error error{};
    error.struct_size = sizeof error;
    error.rank = -1;
    std::size_t length = part_length(part);
    const std::size_t expected = length;
    char nothing = 0;
    char* to = bytes_ == 0 ? &nothing : values_.data() + bytes_ * static_cast<std::size_t>(peer) + part * kPartBytes;
    const int32_t code = exchange_.get(exchange_.self, peer, key(part).c_str(), to, &length, &error);
    if (code < 0) throw Failure(code, error.message, error.rank);
    if (code != RODA_OK) return false;
    if (length != expected) {
      throw Failure(RODA_ERR_PRECONDITION, "member " + std::to_string(peer) + " of the group published " +
                                               std::to_string(length) + " bytes under '" + key(part) + "' where " +
                                               std::to_string(expected) + " were expected: its plugin differs");
    }
    return true;
  }

  roda_exchange exchange_{};
  int rank_ = 0;
  int size_ = 0;
  std::string key_;
  std::size_t bytes_ = 0;
  std::size_t parts_ = 0;
  std::size_t put_ = 0;
  int peer_ = 0;
  std::size_t part_ = 0;
  std::vector<char> values_;
};

}  // namespace roda::sdk

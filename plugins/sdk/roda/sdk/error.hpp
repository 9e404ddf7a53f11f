// Errors inside a plugin, and the barrier that keeps them there.
//
// Plugin code throws sdk::Failure (or anything else); every entry of the C table runs its body in sdk::guarded(), which
// turns whatever comes out into a code and a filled roda_error. No exception crosses the border. Any thread.
#pragma once

#include <roda/abi/types.h>

#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <exception>
#include <mutex>
#include <new>
#include <string>
#include <utility>

namespace roda::sdk {

// Fills `error`, which may be null, and returns `code`. Texts too long are cut.
inline int32_t fill(roda_error* error, int32_t code, int32_t rank, const char* text) noexcept {
  if (error != nullptr && code < 0) {
    error->code = code;
    error->rank = rank;
    std::snprintf(error->message, sizeof error->message, "%s", text);
  }
  return code;
}

// A roda_code with the text that goes with it; `rank` is the world rank it originates from, -1 if unknown.
class Failure : public std::exception {
 public:
  Failure(int32_t code, std::string message, int32_t rank = -1)
      : code_(code), rank_(rank), message_(std::move(message)) {}
  explicit Failure(const roda_error& error) : Failure(error.code, error.message, error.rank) {}

  int32_t code() const noexcept { return code_; }
  int32_t rank() const noexcept { return rank_; }
  const char* what() const noexcept override { return message_.c_str(); }
  int32_t fill(roda_error* error) const noexcept { return sdk::fill(error, code_, rank_, what()); }

 private:
  int32_t code_;
  int32_t rank_;
  std::string message_;
};

// The result of a system call: throws with errno's text if it is negative.
inline int check_system(int result, const char* what) {
  if (result < 0) throw Failure(RODA_ERR_SYSTEM, std::string(what) + ": " + std::strerror(errno));
  return result;
}

// Throws what a status of plugins/base says unless it is OK; `who` begins the text, as in "tcp".
template <typename Status>
void expect_ok(const Status& status, const char* who) {
  if (!status.ok()) throw Failure(status.code(), std::string(who) + ": " + status.message(), status.rank());
}

// True when the ranges have a byte in common.
inline bool overlaps(const void* a, std::size_t a_bytes, const void* b, std::size_t b_bytes) {
  const auto* first = static_cast<const char*>(a);
  const auto* second = static_cast<const char*>(b);
  return first < second + b_bytes && second < first + a_bytes;
}

// Runs `body`, which returns a roda_code, and ends every exception.
template <typename Body>
int32_t guarded(roda_error* error, Body&& body) noexcept {
  try {
    return body();
  } catch (const Failure& failure) {
    return failure.fill(error);
  } catch (const std::bad_alloc&) {
    return fill(error, RODA_ERR_NO_MEMORY, -1, "out of memory");
  } catch (const std::exception& other) {
    return fill(error, RODA_ERR_UNKNOWN, -1, other.what());
  } catch (...) {
    return fill(error, RODA_ERR_UNKNOWN, -1, "an exception of unknown type");
  }
}

// The same of a body that returns nothing: RODA_OK when it came to its end.
template <typename Body>
int32_t done(roda_error* error, Body&& body) noexcept {
  return guarded(error, [&]() -> int32_t {
    body();
    return RODA_OK;
  });
}

// The first error of a group: whoever comes first sets it, everyone later is told the same. Thread-safe; to ask whether
// there is one costs a load.
class FirstCause {
 public:
  // True if this call set it.
  bool set(const Failure& failure) {
    std::lock_guard lock(mutex_);
    if (is_set()) return false;
    rank_ = failure.rank();
    message_ = failure.what();
    code_.store(failure.code(), std::memory_order_release);
    return true;
  }
  bool is_set() const { return code_.load(std::memory_order_acquire) != RODA_OK; }
  // RODA_OK and `error` untouched when nothing was set.
  int32_t fill(roda_error* error) const {
    return is_set() ? sdk::fill(error, code_, rank_, message_.c_str()) : RODA_OK;
  }
  // Code RODA_OK when nothing was set.
  Failure failure() const { return is_set() ? Failure(code_, message_, rank_) : Failure(RODA_OK, {}); }
  void throw_if_set() const {
    if (is_set()) throw failure();
  }

 private:
  std::mutex mutex_;                    // taken to set it
  std::atomic<int32_t> code_{RODA_OK};  // once it is another, nothing here changes any more
  int32_t rank_ = -1;
  std::string message_;
};

}  // namespace roda::sdk

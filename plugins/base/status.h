// The error vocabulary of the C++ side: a one-word value, null when OK.
#pragma once

#include <roda/abi/types.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>
#include <string>
#include <utility>

#include "plugins/base/process_limits.h"

namespace roda {

// Carries a code, the world rank the error originates from (-1: unknown) and a message that names what was wrong, where
// and what to do next. Copying shares the text. Thread-safe as a value.
class [[nodiscard]] Status {
 public:
  Status() = default;
  Status(int code, std::string message, int rank = -1)
      : state_(std::make_shared<const State>(State{code, rank, std::move(message)})) {}

  static Status unknown(std::string m) { return {RODA_ERR_UNKNOWN, std::move(m)}; }
  static Status precondition(std::string m) { return {RODA_ERR_PRECONDITION, std::move(m)}; }
  static Status aborted(std::string m) { return {RODA_ERR_ABORTED, std::move(m)}; }
  static Status invalid(std::string m) { return {RODA_ERR_INVALID, std::move(m)}; }
  static Status unsupported(std::string m) { return {RODA_ERR_UNSUPPORTED, std::move(m)}; }
  static Status unavailable(std::string m) { return {RODA_ERR_UNAVAILABLE, std::move(m)}; }
  static Status timeout(std::string m) { return {RODA_ERR_TIMEOUT, std::move(m)}; }
  static Status peer(int rank, std::string m) { return {RODA_ERR_PEER, std::move(m), rank}; }
  static Status no_memory(std::string m) { return {RODA_ERR_NO_MEMORY, std::move(m)}; }
  static Status system(std::string m) { return {RODA_ERR_SYSTEM, std::move(m)}; }
  // A call of the system failed just now: `what`, what errno says, and the limit that it met.
  static Status of_errno(const std::string& what) {
    const int error = errno;
    return system(what + ": " + std::strerror(error) + limit_behind(error));
  }
  static Status auth(std::string m) { return {RODA_ERR_AUTH, std::move(m)}; }

  // From a C surface: code as returned, the rest from `error`.
  static Status from(int code, const roda_error& error) {
    return code >= 0 ? Status() : Status(code, error.message, error.rank);
  }

  bool ok() const { return state_ == nullptr; }
  int code() const { return state_ ? state_->code : RODA_OK; }
  int rank() const { return state_ ? state_->rank : -1; }
  const std::string& message() const {
    static const std::string empty;
    return state_ ? state_->message : empty;
  }

  // Fills `error` (may be null) and returns the code, for the C surfaces. Texts too long are cut.
  int to(roda_error* error) const {
    if (error != nullptr && !ok()) {
      error->code = code();
      error->rank = rank();
      std::snprintf(error->message, sizeof error->message, "%s", message().c_str());
    }
    return code();
  }

 private:
  struct State {
    int code;
    int rank;
    std::string message;
  };
  std::shared_ptr<const State> state_;
};

inline roda_error make_error() {
  roda_error error{};
  error.struct_size = sizeof error;
  error.rank = -1;
  return error;
}

}  // namespace roda

// Leaves the function with the status of `expression` if it is not OK.
#define RODA_RETURN_IF_ERROR(expression)                                                     \
  do {                                                                                       \
    if (::roda::Status roda_status_ = (expression); !roda_status_.ok()) return roda_status_; \
  } while (false)

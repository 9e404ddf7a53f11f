// The engine as roda-perf uses it: initialised while a Session lives, failures as exceptions inside this program.
#pragma once

#include <stdexcept>

#include "bindings/c/roda.h"

namespace roda::perf {

struct Failure : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// A handle that is done and released when this ends. Move-only.
class Pending {
 public:
  explicit Pending(roda_handle handle) : handle_(handle) {}
  Pending(Pending&& other) noexcept;
  Pending& operator=(Pending&&) = delete;
  ~Pending();

  void wait();
  // Only after wait(): an output that the engine owns, valid while this lives.
  const void* output(std::int32_t index);

 private:
  roda_handle handle_;
  void* output_owner_ = nullptr;
};

// At most one at a time.
class Session {
 public:
  Session();  // collective over the job
  ~Session();
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  int rank() const { return rank_; }
  int size() const { return size_; }

  // A zeroed roda_op with the fields every operation needs.
  static roda_op make_op(std::int32_t collective, const char* name);
  static Pending submit(const roda_op* ops, std::int32_t count);

 private:
  int rank_ = 0;
  int size_ = 1;
};

}  // namespace roda::perf

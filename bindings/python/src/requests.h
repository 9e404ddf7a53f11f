// Python's description of a group of operations, laid out as the engine wants it.
#pragma once

#include <nanobind/nanobind.h>

#include <array>
#include <cstdint>
#include <deque>
#include <vector>

#include "bindings/c/roda.h"

namespace roda::python {

// Fields of one request tuple, in order. Addresses are plain integers, so no framework's type is ever seen here.
enum class Field : int {
  kCollective,
  kName,
  kDtype,
  kShape,   // sequence of int
  kInput,   // address
  kOutput,  // address, 0: the engine owns the output
  kOp,
  kRoot,
  kProcessSet,
  kPrescale,
  kPostscale,
  kSplits,  // None or a sequence of int
  kDevice,  // -1: host
  kStream,
  kCount,
};

// Owns the arrays that the roda_op entries point into; reused from call to call so that the steady state allocates
// nothing. Names stay owned by the tuples: keep those alive until the submission returns.
class RequestBatch {
 public:
  // Replaces the contents by the requests of `list`, a Python list of request tuples. Throws a Python exception when
  // one is malformed.
  void parse(nanobind::list list, bool will_wait);

  const roda_op* data() const { return ops_.data(); }
  std::int32_t size() const { return static_cast<std::int32_t>(ops_.size()); }

 private:
  static constexpr int kMaxDims = 16;

  void append(nanobind::handle request, std::size_t index, bool will_wait);

  std::vector<roda_op> ops_;
  std::deque<std::array<std::int64_t, kMaxDims>> shapes_;  // stable addresses
  std::deque<std::vector<std::int32_t>> splits_;
};

}  // namespace roda::python

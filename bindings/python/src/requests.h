// Operations as Python describes them.
#pragma once

#include <nanobind/nanobind.h>

#include <cstdint>
#include <string>
#include <vector>

#include "bindings/c/roda.h"

namespace roda::python {

// One operation. Addresses are plain integers, so no framework's type is ever seen here. `splits` and `shape` point
// into vectors of the same object: neither copied nor moved.
class Request {
 public:
  // The fields of roda_op. `shape` and `splits` are sequences of int, `splits` None for an even division; an `output`
  // of 0 is the engine's to allocate. Throws a Python exception for what does not fit.
  Request(std::int32_t collective, std::string name, std::int32_t dtype, nanobind::handle shape, std::uintptr_t input,
          std::uintptr_t output, nanobind::handle op, nanobind::handle root, std::int32_t process_set, double prescale,
          double postscale, nanobind::handle splits, std::int32_t device, std::uintptr_t stream);
  Request(const Request&) = delete;
  Request& operator=(const Request&) = delete;

  // Valid as long as this object.
  const roda_op& op() const { return op_; }

  roda_handle handle = 0;  // of the group that it was submitted with

 private:
  std::string name_;
  std::vector<std::int64_t> shape_;
  std::vector<std::int32_t> splits_;
  roda_op op_ = {};
};

// Adds the class to the module.
void bind_request(nanobind::module_& m);

}  // namespace roda::python

// Operations as Python describes them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "bindings/c/roda.h"
#include "bindings/python/src/convert.h"

namespace roda::python {

// One operation. Addresses are plain integers, so no framework's type is ever seen here. `splits` and `shape` point
// into vectors of the same object: neither copied nor moved.
class Request {
 public:
  // The fields of roda_op. `shape` and `splits` are sequences of int, `splits` nothing for an even division; an
  // `output` of 0 is the engine's to allocate. Throws PythonError for what does not fit.
  Request(std::int32_t collective, std::string name, std::int32_t dtype, PyObject* shape, std::uintptr_t input,
          std::uintptr_t output, Given op, std::optional<std::int32_t> root, std::optional<std::int32_t> process_set,
          std::optional<double> prescale, std::optional<double> postscale, std::optional<PyObject*> splits,
          std::optional<std::int32_t> device, std::optional<std::uintptr_t> stream,
          std::optional<std::int32_t> wire_format);
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

// Adds the class to the module. Throws PythonError.
void add_request_class(PyObject* module);

}  // namespace roda::python

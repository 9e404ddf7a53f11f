#include "bindings/python/src/requests.h"

#include <nanobind/stl/string.h>

#include <limits>
#include <utility>

namespace roda::python {

namespace nb = nanobind;
using nb::literals::operator""_a;

namespace {

constexpr std::size_t kMaxDims = 16;

[[noreturn]] void raise_value_error(const char* text) {
  PyErr_SetString(PyExc_ValueError, text);
  throw nb::python_error();
}

std::int64_t to_int64(PyObject* object) {
  const long long value = PyLong_AsLongLong(object);
  if (value == -1 && PyErr_Occurred() != nullptr) throw nb::python_error();
  return value;
}

std::int32_t to_int32(PyObject* object) {
  const std::int64_t value = to_int64(object);
  if (value < std::numeric_limits<std::int32_t>::min() || value > std::numeric_limits<std::int32_t>::max()) {
    raise_value_error("an integer of the request does not fit in 32 bits");
  }
  return static_cast<std::int32_t>(value);
}

std::int32_t to_reduce_op(PyObject* object) {
  if (PyIndex_Check(object) != 0) return to_int32(object);
  PyErr_Format(PyExc_TypeError, "op is one of hvd.Average, Sum, Adasum, Min, Max and Product, not %R", object);
  throw nb::python_error();
}

template <typename Value, typename Convert>
std::vector<Value> to_vector(nb::handle given, const char* otherwise, Convert convert) {
  const nb::object items = nb::steal(PySequence_Fast(given.ptr(), otherwise));
  if (!items.is_valid()) throw nb::python_error();
  std::vector<Value> values(static_cast<std::size_t>(PySequence_Fast_GET_SIZE(items.ptr())));
  PyObject** const objects = PySequence_Fast_ITEMS(items.ptr());
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = convert(objects[i]);
  return values;
}

}  // namespace

Request::Request(std::int32_t collective, std::string name, std::int32_t dtype, nb::handle shape, std::uintptr_t input,
                 std::uintptr_t output, nb::handle op, nb::handle root, std::int32_t process_set, double prescale,
                 double postscale, nb::handle splits, std::int32_t device, std::uintptr_t stream)
    : name_(std::move(name)), shape_(to_vector<std::int64_t>(shape, "the shape must be a sequence", to_int64)) {
  if (shape_.size() > kMaxDims) raise_value_error("tensors of more than 16 dimensions are not supported");
  op_.struct_size = sizeof(roda_op);
  op_.collective = collective;
  op_.name = name_.c_str();
  op_.dtype = dtype;
  op_.shape = shape_.data();
  op_.ndim = static_cast<std::int32_t>(shape_.size());
  op_.input = reinterpret_cast<void*>(input);
  op_.output = reinterpret_cast<void*>(output);
  op_.op = to_reduce_op(op.ptr());
  op_.root = to_int32(root.ptr());
  op_.process_set = process_set;
  op_.prescale = prescale;
  op_.postscale = postscale;
  op_.device = device;
  op_.stream = reinterpret_cast<void*>(stream);
  if (splits.is_none()) return;
  splits_ = to_vector<std::int32_t>(splits, "the splits must be a sequence", to_int32);
  op_.num_splits = static_cast<std::int32_t>(splits_.size());
  splits_.reserve(1);  // an empty list of splits is not the same as none: never a null pointer
  op_.splits = splits_.data();
}

void bind_request(nb::module_& m) {
  nb::class_<Request>(m, "Request", "One operation of a group that is submitted together; the fields of roda_op.")
      .def(nb::init<std::int32_t, std::string, std::int32_t, nb::handle, std::uintptr_t, std::uintptr_t, nb::handle,
                    nb::handle, std::int32_t, double, double, nb::handle, std::int32_t, std::uintptr_t>(),
           "collective"_a, "name"_a, "dtype"_a, "shape"_a, "input"_a, "output"_a, "op"_a = 1, "root"_a = 0,
           "process_set"_a = 0, "prescale"_a = 1.0, "postscale"_a = 1.0, "splits"_a = nb::none(), "device"_a = -1,
           "stream"_a = 0)
      .def_prop_ro("collective", [](const Request& request) { return request.op().collective; })
      .def_prop_ro("name", [](const Request& request) { return request.op().name; })
      .def_prop_ro("process_set", [](const Request& request) { return request.op().process_set; })
      .def_prop_ro("device", [](const Request& request) { return request.op().device; })
      .def_ro("handle", &Request::handle);
}

}  // namespace roda::python

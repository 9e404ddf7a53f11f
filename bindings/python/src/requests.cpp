#include "bindings/python/src/requests.h"

#include <utility>

#include "bindings/python/src/class.h"

namespace roda::python {

namespace {

std::int32_t to_reduce_op(Given op) {
  if (op.object == nullptr) return RODA_SUM;
  if (PyIndex_Check(op.object) != 0) return to_int32(op.object);
  PyErr_Format(PyExc_TypeError, "op is one of hvd.Average, Sum, Adasum, Min, Max and Product, not %R", op.object);
  throw PythonError();
}

}  // namespace

Request::Request(std::int32_t collective, std::string name, std::int32_t dtype, PyObject* shape, std::uintptr_t input,
                 std::uintptr_t output, Given op, std::optional<std::int32_t> root,
                 std::optional<std::int32_t> process_set, std::optional<double> prescale,
                 std::optional<double> postscale, std::optional<PyObject*> splits, std::optional<std::int32_t> device,
                 std::optional<std::uintptr_t> stream, std::optional<std::int32_t> wire_format)
    : name_(std::move(name)), shape_(to_vector<std::int64_t>(shape, "the shape must be a sequence", to_int64)) {
  if (shape_.size() > kMaxDims) {
    PyErr_SetString(PyExc_ValueError, "tensors of more than 16 dimensions are not supported");
    throw PythonError();
  }
  op_.struct_size = sizeof(roda_op);
  op_.collective = collective;
  op_.name = name_.c_str();
  op_.dtype = dtype;
  op_.shape = shape_.data();
  op_.ndim = static_cast<std::int32_t>(shape_.size());
  op_.input = reinterpret_cast<void*>(input);
  op_.output = reinterpret_cast<void*>(output);
  op_.op = to_reduce_op(op);
  op_.root = root.value_or(0);
  op_.process_set = process_set.value_or(0);
  op_.prescale = prescale.value_or(1.0);
  op_.postscale = postscale.value_or(1.0);
  op_.device = device.value_or(-1);
  op_.stream = reinterpret_cast<void*>(stream.value_or(0));
  op_.wire_format = wire_format.value_or(RODA_WIRE_NONE);
  if (!splits.has_value()) return;
  splits_ = to_vector<std::int32_t>(*splits, "the splits must be a sequence", to_int32);
  op_.num_splits = static_cast<std::int32_t>(splits_.size());
  splits_.reserve(1);  // an empty list of splits is not the same as none: never a null pointer
  op_.splits = splits_.data();
}

void add_request_class(PyObject* module) {
  static PyGetSetDef attributes[] = {
      attribute<[](const Request& request) { return request.op().collective; }>("collective"),
      attribute<[](const Request& request) { return request.op().name; }>("name"),
      attribute<[](const Request& request) { return request.op().process_set; }>("process_set"),
      attribute<[](const Request& request) { return request.op().device; }>("device"),
      attribute<[](const Request& request) { return request.handle; }>("handle"),
      {}};
  static PyMethodDef methods[] = {{}};
  add_class<Request, std::int32_t, std::string, std::int32_t, PyObject*, std::uintptr_t, std::uintptr_t, Given,
            std::optional<std::int32_t>, std::optional<std::int32_t>, std::optional<double>, std::optional<double>,
            std::optional<PyObject*>, std::optional<std::int32_t>, std::optional<std::uintptr_t>,
            std::optional<std::int32_t>>(
      module, "horovod._roda.Request",
      {"collective", "name", "dtype", "shape", "input", "output", "op", "root", "process_set", "prescale", "postscale",
       "splits", "device", "stream", "wire_format"},
      attributes, methods, "One operation of a group that is submitted together; the fields of roda_op.");
}

}  // namespace roda::python

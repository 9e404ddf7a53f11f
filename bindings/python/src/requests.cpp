#include "bindings/python/src/requests.h"

#include <limits>

namespace roda::python {

namespace nb = nanobind;

namespace {

[[noreturn]] void raise_value_error(const char* text) {
  PyErr_SetString(PyExc_ValueError, text);
  throw nb::python_error();
}

// Views of one tuple's fields; every reader throws the Python exception that the conversion set.
class Reader {
 public:
  explicit Reader(nb::handle tuple) : tuple_(tuple) {
    if (!PyTuple_CheckExact(tuple.ptr()) || PyTuple_GET_SIZE(tuple.ptr()) != static_cast<int>(Field::kCount)) {
      raise_value_error("a request must be a tuple of the fields that bindings/python/src/requests.h lists");
    }
  }

  PyObject* get(Field field) const { return PyTuple_GET_ITEM(tuple_.ptr(), static_cast<int>(field)); }

  std::int32_t int32(Field field) const { return to_int32(get(field)); }

  void* address(Field field) const {
    void* value = PyLong_AsVoidPtr(get(field));
    if (value == nullptr && PyErr_Occurred() != nullptr) throw nb::python_error();
    return value;
  }

  double number(Field field) const {
    const double value = PyFloat_AsDouble(get(field));
    if (value == -1.0 && PyErr_Occurred() != nullptr) throw nb::python_error();
    return value;
  }

  const char* text(Field field) const {
    const char* value = PyUnicode_AsUTF8(get(field));
    if (value == nullptr) throw nb::python_error();
    return value;
  }

  static std::int64_t to_int64(PyObject* object) {
    const long long value = PyLong_AsLongLong(object);
    if (value == -1 && PyErr_Occurred() != nullptr) throw nb::python_error();
    return value;
  }

  static std::int32_t to_int32(PyObject* object) {
    const std::int64_t value = to_int64(object);
    if (value < std::numeric_limits<std::int32_t>::min() || value > std::numeric_limits<std::int32_t>::max()) {
      raise_value_error("an integer of the request does not fit in 32 bits");
    }
    return static_cast<std::int32_t>(value);
  }

 private:
  nb::handle tuple_;
};

}  // namespace

void RequestBatch::parse(nb::list list, bool will_wait) {
  const std::size_t count = list.size();
  ops_.clear();
  if (shapes_.size() < count) shapes_.resize(count);
  if (splits_.size() < count) splits_.resize(count);
  for (std::size_t i = 0; i < count; ++i) append(PyList_GET_ITEM(list.ptr(), i), i, will_wait);
}

void RequestBatch::append(nb::handle request, std::size_t index, bool will_wait) {
  const Reader reader(request);
  roda_op op = {};
  op.struct_size = sizeof(roda_op);
  op.collective = reader.int32(Field::kCollective);
  op.name = reader.text(Field::kName);
  op.dtype = reader.int32(Field::kDtype);
  op.input = reader.address(Field::kInput);
  op.output = reader.address(Field::kOutput);
  op.device = reader.int32(Field::kDevice);
  op.op = reader.int32(Field::kOp);
  op.root = reader.int32(Field::kRoot);
  op.process_set = reader.int32(Field::kProcessSet);
  op.prescale = reader.number(Field::kPrescale);
  op.postscale = reader.number(Field::kPostscale);
  op.flags = will_wait ? static_cast<std::uint32_t>(RODA_OP_WILL_WAIT) : 0u;
  op.stream = reader.address(Field::kStream);

  const nb::object shape = nb::steal(PySequence_Fast(reader.get(Field::kShape), "the shape must be a sequence"));
  if (!shape.is_valid()) throw nb::python_error();
  const Py_ssize_t ndim = PySequence_Fast_GET_SIZE(shape.ptr());
  if (ndim > kMaxDims) raise_value_error("tensors of more than 16 dimensions are not supported");
  for (Py_ssize_t d = 0; d < ndim; ++d) {
    shapes_[index][static_cast<std::size_t>(d)] = Reader::to_int64(PySequence_Fast_GET_ITEM(shape.ptr(), d));
  }
  op.ndim = static_cast<std::int32_t>(ndim);
  op.shape = shapes_[index].data();

  if (PyObject* given = reader.get(Field::kSplits); given != Py_None) {
    const nb::object rows = nb::steal(PySequence_Fast(given, "the splits must be a sequence"));
    if (!rows.is_valid()) throw nb::python_error();
    std::vector<std::int32_t>& splits = splits_[index];
    splits.clear();
    const Py_ssize_t count = PySequence_Fast_GET_SIZE(rows.ptr());
    for (Py_ssize_t i = 0; i < count; ++i) {
      splits.push_back(Reader::to_int32(PySequence_Fast_GET_ITEM(rows.ptr(), i)));
    }
    splits.reserve(1);  // an empty list of splits is not the same as none: never a null pointer
    op.splits = splits.data();
    op.num_splits = static_cast<std::int32_t>(count);
  }
  ops_.push_back(op);
}

}  // namespace roda::python

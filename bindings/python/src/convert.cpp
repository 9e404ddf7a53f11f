#include "bindings/python/src/convert.h"

#include <limits>

namespace roda::python {
namespace {

void throw_if_set() {
  if (PyErr_Occurred() != nullptr) throw PythonError();
}

}  // namespace

std::int64_t to_int64(PyObject* object) {
  const long long value = PyLong_AsLongLong(object);
  if (value == -1) throw_if_set();
  return value;
}

std::int32_t to_int32(PyObject* object) {
  const std::int64_t value = to_int64(object);
  if (value >= std::numeric_limits<std::int32_t>::min() && value <= std::numeric_limits<std::int32_t>::max()) {
    return static_cast<std::int32_t>(value);
  }
  PyErr_Format(PyExc_ValueError, "%R does not fit in 32 bits", object);
  throw PythonError();
}

std::uint64_t to_uint64(PyObject* object) {
  const Object index = Object::take(PyNumber_Index(object));
  const unsigned long long value = PyLong_AsUnsignedLongLong(index.get());
  if (value == static_cast<unsigned long long>(-1)) throw_if_set();
  return value;
}

double to_double(PyObject* object) {
  const double value = PyFloat_AsDouble(object);
  if (value == -1.0) throw_if_set();
  return value;
}

std::string to_bytes(PyObject* object) {
  char* bytes = nullptr;
  Py_ssize_t size = 0;
  if (PyBytes_AsStringAndSize(object, &bytes, &size) != 0) throw PythonError();
  return {bytes, static_cast<std::size_t>(size)};
}

std::string to_text(PyObject* object) { return to_bytes(Object::take(PyUnicode_AsUTF8String(object)).get()); }

}  // namespace roda::python

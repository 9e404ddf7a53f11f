#include "bindings/python/src/function.h"

namespace roda::python {

void Signature::describe(const char* self, const char* text) {
  doc = name + "(" + self;
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    doc += std::string(", ") + parameters[i] + (i < num_required ? "" : "=None");
  }
  doc += std::string(")\n--\n\n") + text;
}

void Signature::arrange(PyObject* args, PyObject* kwargs, PyObject** given) const {
  const auto count = static_cast<std::size_t>(PyTuple_Size(args));
  if (count > parameters.size()) {
    PyErr_Format(PyExc_TypeError, "%s() takes %zu arguments, %zu were given", name.c_str(), parameters.size(), count);
    throw PythonError();
  }
  for (std::size_t i = 0; i < count; ++i) given[i] = PyTuple_GetItem(args, static_cast<Py_ssize_t>(i));
  PyObject *key = nullptr, *value = nullptr;
  for (Py_ssize_t place = 0; kwargs != nullptr && PyDict_Next(kwargs, &place, &key, &value) != 0;) {
    std::size_t i = 0;
    while (i < parameters.size() && PyUnicode_CompareWithASCIIString(key, parameters[i]) != 0) ++i;
    if (i < parameters.size() && given[i] == nullptr) {
      given[i] = value;
      continue;
    }
    PyErr_Format(PyExc_TypeError,
                 i < parameters.size() ? "%s() has two values for '%U'" : "%s() knows no argument '%U'", name.c_str(),
                 key);
    throw PythonError();
  }
  for (std::size_t i = 0; i < num_required; ++i) {
    if (given[i] != nullptr) continue;
    PyErr_Format(PyExc_TypeError, "%s() lacks the argument '%s'", name.c_str(), parameters[i]);
    throw PythonError();
  }
}

}  // namespace roda::python

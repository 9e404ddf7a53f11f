#include "bindings/python/src/line.h"

#include <string>

#include "bindings/c/roda.h"
#include "bindings/python/src/convert.h"

namespace roda::python {

namespace {

Object attribute_of(const Object& object, const char* name) {
  return Object::take(PyObject_GetAttrString(object.get(), name));
}

bool is_ours(const Object& frame) {
  const Object globals = attribute_of(frame, "f_globals");
  PyObject* name = PyDict_GetItemString(globals.get(), "__name__");  // borrowed; null: none
  return name != nullptr && PyUnicode_Check(name) != 0 && (to_text(name) + ".").starts_with("horovod.");
}

bool is_librarys(const std::string& file) {
  return file.find("site-packages") != std::string::npos || file.find("dist-packages") != std::string::npos ||
         file.starts_with("<frozen");
}

// Of this thread's innermost frame that is the user's; where all are libraries', of the innermost that is not ours.
std::string line_of_program() {
  auto* innermost = reinterpret_cast<PyObject*>(PyEval_GetFrame());
  if (innermost == nullptr) return {};
  Py_INCREF(innermost);
  std::string of_library;
  for (Object frame = Object::take(innermost); frame.get() != Py_None; frame = attribute_of(frame, "f_back")) {
    if (is_ours(frame)) continue;
    const std::string file = to_text(attribute_of(attribute_of(frame, "f_code"), "co_filename").get());
    const std::string line = file + ":" + std::to_string(to_int32(attribute_of(frame, "f_lineno").get()));
    if (!is_librarys(file)) return line;
    if (of_library.empty()) of_library = line;
  }
  return of_library;
}

}  // namespace

WaitingLine::~WaitingLine() {
  if (is_noted_) roda_note_line("");
}

void WaitingLine::note() {
  try {
    roda_note_line(line_of_program().c_str());
    is_noted_ = true;
  } catch (const PythonError&) {
    PyErr_Clear();
  }
}

}  // namespace roda::python

#include "bindings/python/src/errors.h"

namespace roda::python {

namespace nb = nanobind;

void raise_error(int code, const roda_error& error) {
  const char* text = error.message[0] != '\0' ? error.message : "the engine gave no reason";
  if (code == RODA_ERR_INVALID) {
    PyErr_SetString(PyExc_ValueError, text);
  } else {
    nb::object type = nb::module_::import_("horovod.common.exceptions").attr("HorovodInternalError");
    PyErr_SetString(type.ptr(), text);
  }
  throw nb::python_error();
}

}  // namespace roda::python

#include "bindings/python/src/errors.h"

namespace roda::python {

namespace nb = nanobind;

void raise_error(int code, const roda_error& error) {
  const char* text = error.message[0] != '\0' ? error.message : "the engine gave no reason";
  if (code == RODA_ERR_INVALID) {
    PyErr_SetString(PyExc_ValueError, text);
  } else {
    const bool is_lost = error.rank >= 0 && (code == RODA_ERR_PEER || code == RODA_ERR_TIMEOUT);
    nb::object type = nb::module_::import_("horovod.common.exceptions").attr("HorovodInternalError");
    nb::object raised = type(nb::str(text));
    if (is_lost) raised.attr("lost_rank") = error.rank;
    PyErr_SetObject(type.ptr(), raised.ptr());
  }
  throw nb::python_error();
}

}  // namespace roda::python

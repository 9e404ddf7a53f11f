#include "bindings/python/src/errors.h"

#include "bindings/python/src/convert.h"

namespace roda::python {

void raise_error(int code, const roda_error& error) {
  const Object text = from(error.message[0] != '\0' ? error.message : "the engine gave no reason");
  if (code == RODA_ERR_INVALID) {
    PyErr_SetObject(PyExc_ValueError, text.get());
    throw PythonError();
  }
  const bool is_lost = error.rank >= 0 && (code == RODA_ERR_PEER || code == RODA_ERR_TIMEOUT);
  const Object module = Object::take(PyImport_ImportModule("horovod.common.exceptions"));
  const Object type = Object::take(PyObject_GetAttrString(module.get(), "HorovodInternalError"));
  const Object raised = Object::take(PyObject_CallFunctionObjArgs(type.get(), text.get(), nullptr));
  if (is_lost && PyObject_SetAttrString(raised.get(), "lost_rank", from(error.rank).get()) != 0) throw PythonError();
  PyErr_SetObject(type.get(), raised.get());
  throw PythonError();
}

}  // namespace roda::python

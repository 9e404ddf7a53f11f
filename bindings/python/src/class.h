// C++ classes as Python's. Their objects are made and destroyed with the interpreter's lock held.
#pragma once

#include <memory>
#include <optional>

#include "bindings/python/src/function.h"

namespace roda::python {

template <typename Value>
struct Instance {
  PyObject head;
  std::optional<Value> value;  // empty only while it is made
};

// Null before add_class().
template <typename Value>
inline PyTypeObject* type_of = nullptr;

template <typename Value>
inline Signature constructor_of;

// `self` is of that class.
template <typename Value>
Value& self_of(PyObject* self) {
  return *reinterpret_cast<Instance<Value>*>(self)->value;
}

// Throws TypeError for an object of another class.
template <typename Value>
Value& value_of(PyObject* object) {
  if (Py_TYPE(object) == type_of<Value>) return self_of<Value>(object);
  PyErr_Format(PyExc_TypeError, "a %s is expected, not %R", constructor_of<Value>.name.c_str(), object);
  throw PythonError();
}

// A read-only attribute: what the function says of the object.
template <auto kGet, typename Value>
PyGetSetDef define_attribute(auto (*)(const Value&), const char* name) {
  constexpr getter kCall = [](PyObject* self, void*) {
    return guarded([&] { return from(kGet(self_of<Value>(self))); });
  };
  return {name, kCall, nullptr, nullptr, nullptr};
}
template <auto kGet>
PyGetSetDef attribute(const char* name) {
  return define_attribute<kGet>(+kGet, name);
}

template <auto kMethod, typename Value, typename Result, typename... Parameters>
PyMethodDef define_method(Result (Value::*)(Parameters...), const char* name, std::vector<const char*> names) {
  Signature& signature = signature_of<kMethod>;
  signature = {name, std::move(names), count_required<std::decay_t<Parameters>...>(), {}};
  signature.describe("$self", "");
  constexpr PyCFunctionWithKeywords kCall = [](PyObject* self, PyObject* args, PyObject* kwargs) {
    return guarded([&] {
      return with_arguments<std::decay_t<Parameters>...>(signature_of<kMethod>, args, kwargs, [&](auto&... values) {
        return result_of<Lock::kHeld>([&]() -> Result { return (self_of<Value>(self).*kMethod)(values...); });
      });
    });
  };
  return {signature.name.c_str(), reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(kCall)),
          METH_VARARGS | METH_KEYWORDS, signature.doc.c_str()};
}
template <auto kMethod>
PyMethodDef method(const char* name, std::vector<const char*> parameters = {}) {
  return define_method<kMethod>(kMethod, name, std::move(parameters));
}

// How Python makes an object: Value(Parameters...).
template <typename Value, typename... Parameters>
PyObject* make_instance(PyTypeObject* type, PyObject* args, PyObject* kwargs) {
  return guarded([&] {
    return with_arguments<Parameters...>(constructor_of<Value>, args, kwargs, [type](auto&... values) {
      Object made = Object::take(PyType_GenericAlloc(type, 0));
      auto* instance = reinterpret_cast<Instance<Value>*>(made.get());
      new (&instance->value) std::optional<Value>();
      instance->value.emplace(std::move(values)...);
      return made;
    });
  });
}

template <typename Value>
void destroy_instance(PyObject* self) {
  PyTypeObject* type = Py_TYPE(self);
  std::destroy_at(&reinterpret_cast<Instance<Value>*>(self)->value);
  PyObject_Free(self);
  Py_DECREF(type);  // every object of a class that is made at run time holds it
}

// Adds the class, whose constructor takes `Parameters` by those names. Both tables end with an empty entry and live as
// long as the module. `full_name` has the module in front.
template <typename Value, typename... Parameters>
void add_class(PyObject* module, const char* full_name, std::vector<const char*> names, PyGetSetDef* attributes,
               PyMethodDef* methods, const char* text) {
  const std::string_view whole = full_name;
  const char* name = full_name + whole.rfind('.') + 1;
  Signature& signature = constructor_of<Value>;
  signature = {name, std::move(names), count_required<Parameters...>(), {}};
  signature.doc = text;
  newfunc make = &make_instance<Value, Parameters...>;
  destructor destroy = &destroy_instance<Value>;
  PyType_Slot slots[] = {{Py_tp_new, reinterpret_cast<void*>(make)},
                         {Py_tp_dealloc, reinterpret_cast<void*>(destroy)},
                         {Py_tp_getset, attributes},
                         {Py_tp_methods, methods},
                         {Py_tp_doc, signature.doc.data()},
                         {0, nullptr}};
  PyType_Spec spec = {full_name, static_cast<int>(sizeof(Instance<Value>)), 0, Py_TPFLAGS_DEFAULT, slots};
  Object type = Object::take(PyType_FromSpec(&spec));
  type_of<Value> = reinterpret_cast<PyTypeObject*>(type.get());
  if (PyModule_AddObject(module, name, type.get()) != 0) throw PythonError();
  type.release();  // the module has it
}

}  // namespace roda::python

// Python's objects as C++ values.
//
// All of this folder keeps to the limited API of Python 3.9 (meson.build): one build serves every version from that on.
#pragma once

#include <Python.h>

#include <exception>
#include <new>
#include <utility>

namespace roda::python {

// A Python exception is set. Thrown where that happened, caught where Python called (`guarded`).
struct PythonError {};

// One reference, given back with this object; null only after a move. Hold the interpreter's lock.
class Object {
 public:
  // Takes over a new reference. Throws PythonError for null, which is how Python's functions fail.
  static Object take(PyObject* reference) {
    if (reference == nullptr) throw PythonError();
    return Object(reference);
  }
  static Object none() {
    Py_INCREF(Py_None);
    return Object(Py_None);
  }
  Object(Object&& other) noexcept : object_(other.release()) {}
  Object& operator=(Object&& other) noexcept {
    std::swap(object_, other.object_);
    return *this;
  }
  ~Object() { Py_XDECREF(object_); }
  Object(const Object&) = delete;
  Object& operator=(const Object&) = delete;

  PyObject* get() const { return object_; }
  // To whoever takes over the reference.
  PyObject* release() { return std::exchange(object_, nullptr); }

 private:
  explicit Object(PyObject* reference) : object_(reference) {}

  PyObject* object_;
};

// Lets other threads of the interpreter run meanwhile.
class Unlocked {
 public:
  Unlocked() : state_(PyEval_SaveThread()) {}
  ~Unlocked() { PyEval_RestoreThread(state_); }
  Unlocked(const Unlocked&) = delete;
  Unlocked& operator=(const Unlocked&) = delete;

 private:
  PyThreadState* state_;
};

// What a function gives back to Python: the reference that `work` returns, or null with an exception set.
template <typename Work>
PyObject* guarded(Work&& work) {
  try {
    return work().release();
  } catch (const PythonError&) {
  } catch (const std::bad_alloc&) {
    PyErr_NoMemory();
  } catch (const std::exception& error) {
    PyErr_SetString(PyExc_RuntimeError, error.what());
  }
  return nullptr;
}

}  // namespace roda::python

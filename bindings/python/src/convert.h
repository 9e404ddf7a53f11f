// Values from Python's objects and back: to<int>(object), from(5).
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "bindings/python/src/object.h"

namespace roda::python {

inline constexpr std::size_t kMaxDims = 16;  // of a tensor

// Whether a parameter's type is one that a call may leave out, or a vector.
template <typename T>
inline constexpr bool is_optional = false;
template <typename T>
inline constexpr bool is_optional<std::optional<T>> = true;
template <typename T>
inline constexpr bool is_vector = false;
template <typename T>
inline constexpr bool is_vector<std::vector<T>> = true;

// An argument as it was given, borrowed; null when it was left out.
struct Given {
  PyObject* object;
};
template <>
inline constexpr bool is_optional<Given> = true;

std::int64_t to_int64(PyObject* object);
std::int32_t to_int32(PyObject* object);
std::uint64_t to_uint64(PyObject* object);
double to_double(PyObject* object);
std::string to_text(PyObject* object);
// The bytes of a bytes object.
std::string to_bytes(PyObject* object);

// The values of a sequence. TypeError with the text `otherwise` for anything else.
template <typename Value, typename Convert>
std::vector<Value> to_vector(PyObject* object, const char* otherwise, Convert convert) {
  // PySequence_Fast copies what is of a subclass: torch.Size.
  const bool is_tuple = PyTuple_Check(object) != 0;
  if (is_tuple) Py_INCREF(object);
  const Object items = Object::take(is_tuple ? object : PySequence_Fast(object, otherwise));
  const bool is_list = PyList_Check(items.get()) != 0;
  const Py_ssize_t size = is_list ? PyList_Size(items.get()) : PyTuple_Size(items.get());
  std::vector<Value> values(static_cast<std::size_t>(size));
  for (Py_ssize_t i = 0; i < size; ++i) {
    // Converting an element may run Python code, which may shorten the list: null then, with IndexError set.
    PyObject* item = is_list ? PyList_GetItem(items.get(), i) : PyTuple_GetItem(items.get(), i);
    if (item == nullptr) throw PythonError();
    values[static_cast<std::size_t>(i)] = convert(item);
  }
  return values;
}

// An optional value is None, or left out (null). Throws PythonError: TypeError, ValueError, OverflowError.
template <typename Value>
Value to(PyObject* object) {
  if constexpr (std::is_same_v<Value, Given>) {
    return {object};
  } else if constexpr (is_optional<Value>) {
    if (object == nullptr || object == Py_None) return std::nullopt;
    return to<typename Value::value_type>(object);
  } else if constexpr (is_vector<Value>) {
    return to_vector<typename Value::value_type>(object, "a sequence is expected", &to<typename Value::value_type>);
  } else if constexpr (std::is_same_v<Value, PyObject*>) {
    return object;
  } else if constexpr (std::is_same_v<Value, bool>) {
    const int truth = PyObject_IsTrue(object);
    if (truth < 0) throw PythonError();
    return truth != 0;
  } else if constexpr (std::is_same_v<Value, double>) {
    return to_double(object);
  } else if constexpr (std::is_same_v<Value, std::string>) {
    return to_text(object);
  } else if constexpr (std::is_unsigned_v<Value>) {
    return to_uint64(object);
  } else {
    static_assert(std::is_same_v<Value, std::int32_t>);
    return to_int32(object);
  }
}

inline Object from(bool value) { return Object::take(PyBool_FromLong(value ? 1 : 0)); }
inline Object from(std::int32_t value) { return Object::take(PyLong_FromLong(value)); }
inline Object from(std::uint64_t value) { return Object::take(PyLong_FromUnsignedLongLong(value)); }
// A text of the engine's may have been cut within a character.
inline Object from(std::string_view text) {
  return Object::take(PyUnicode_DecodeUTF8(text.data(), static_cast<Py_ssize_t>(text.size()), "replace"));
}
inline Object from(const char* text) { return from(std::string_view(text)); }
inline Object from(Object object) { return object; }

template <typename Value>
Object from(const std::vector<Value>& values) {
  Object list = Object::take(PyList_New(static_cast<Py_ssize_t>(values.size())));
  for (std::size_t i = 0; i < values.size(); ++i) {
    PyList_SetItem(list.get(), static_cast<Py_ssize_t>(i), from(values[i]).release());
  }
  return list;
}

}  // namespace roda::python

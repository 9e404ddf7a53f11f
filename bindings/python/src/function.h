// C++ functions as Python's: define<&f>("f", {"ranks", "id"}, "What it does.") is a line of a module's table.
#pragma once

#include <array>
#include <cstddef>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "bindings/python/src/convert.h"

namespace roda::python {

// How a function is called and what help() says of it; as long as the module.
struct Signature {
  std::string name;
  std::vector<const char*> parameters;
  std::size_t num_required = 0;  // the others may be left out
  std::string doc;

  // Makes `doc` begin with the parameters, in the form that inspect.signature() reads.
  void describe(const char* self, const char* text);
  // Sorts a call's arguments into given[parameters.size()], borrowed; null for what was left out. Throws TypeError.
  void arrange(PyObject* args, PyObject* kwargs, PyObject** given) const;
};

template <typename... Parameters>
std::size_t count_required() {
  return (std::size_t{0} + ... + (is_optional<Parameters> ? 0 : 1));
}

// Calls `use` with the call's arguments as values of those types.
template <typename... Parameters, typename Use>
decltype(auto) with_arguments(const Signature& signature, PyObject* args, PyObject* kwargs, Use&& use) {
  std::array<PyObject*, sizeof...(Parameters)> given{};
  signature.arrange(args, kwargs, given.data());
  return [&]<std::size_t... I>(std::index_sequence<I...>) -> decltype(auto) {
    std::tuple<Parameters...> values{to<Parameters>(given[I])...};  // braces: from left to right
    return use(std::get<I>(values)...);
  }(std::index_sequence_for<Parameters...>());
}

enum class Lock { kHeld, kReleased };  // the interpreter's, during the call

// Calls it and makes a Python object of what it returns.
template <Lock kLock, typename Call>
Object result_of(Call&& call) {
  using Result = decltype(call());
  const auto run = [&]() -> Result {
    if constexpr (kLock == Lock::kReleased) {
      const Unlocked unlocked;
      return call();
    } else {
      return call();
    }
  };
  if constexpr (std::is_void_v<Result>) {
    run();
    return Object::none();
  } else {
    return from(run());
  }
}

template <auto kFunction>
inline Signature signature_of;

template <auto kFunction, Lock kLock, typename Result, typename... Parameters>
PyMethodDef define_function(Result (*)(Parameters...), const char* name, std::vector<const char*> names,
                            const char* text) {
  Signature& signature = signature_of<kFunction>;
  signature = {name, std::move(names), count_required<std::decay_t<Parameters>...>(), {}};
  signature.describe("$module", text);
  constexpr PyCFunctionWithKeywords kCall = [](PyObject*, PyObject* args, PyObject* kwargs) {
    return guarded([&] {
      return with_arguments<std::decay_t<Parameters>...>(signature_of<kFunction>, args, kwargs, [](auto&... values) {
        return result_of<kLock>([&]() -> Result { return kFunction(values...); });
      });
    });
  };
  return {signature.name.c_str(), reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(kCall)),
          METH_VARARGS | METH_KEYWORDS, signature.doc.c_str()};
}

// A function, or a lambda that captures nothing. A parameter of a type std::optional<...> may be left out.
template <auto kFunction, Lock kLock = Lock::kHeld>
PyMethodDef define(const char* name, std::vector<const char*> parameters = {}, const char* text = "") {
  return define_function<kFunction, kLock>(+kFunction, name, std::move(parameters), text);
}

}  // namespace roda::python

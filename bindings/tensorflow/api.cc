#include "bindings/tensorflow/api.h"

#include <dlfcn.h>

namespace roda::tf {

Api api;

std::string load() {
  void* library = dlopen("libtensorflow_framework.so.2", RTLD_LAZY | RTLD_NOLOAD);
  if (library == nullptr) return "libtensorflow_framework.so.2 is not loaded: import tensorflow 2 first";
  std::string missing;
#define RODA_TF_FIND(result, name, parameters)                            \
  api.name = reinterpret_cast<decltype(api.name)>(dlsym(library, #name)); \
  if (api.name == nullptr) missing += " " #name;
  RODA_TF_API(RODA_TF_FIND)
#undef RODA_TF_FIND
  if (missing.empty()) return "";
  return "this TensorFlow lacks" + missing + "; it has to be 2.13 or newer";
}

}  // namespace roda::tf

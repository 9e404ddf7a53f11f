// What is looked up in a library that was opened at run time. Any thread.
#pragma once

#include <dlfcn.h>

#include <cstring>
#include <string>

namespace roda {

// Looks a symbol up in the library and in those that it brought along. False, and a null pointer, where there is none.
template <typename Pointer>
bool look_up(void* library, const char* name, Pointer* pointer) {
  void* address = ::dlsym(library, name);
  static_assert(sizeof *pointer == sizeof address);
  std::memcpy(pointer, &address, sizeof address);
  return address != nullptr;
}

// The file that a function came from, wherever the linker's path led; `otherwise` when that is not known.
template <typename Function>
std::string file_of(Function* function, const char* otherwise) {
  Dl_info info{};
  const bool is_known = ::dladdr(reinterpret_cast<void*>(function), &info) != 0 && info.dli_fname != nullptr;
  return is_known ? info.dli_fname : otherwise;
}

}  // namespace roda

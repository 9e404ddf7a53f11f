#include <dlfcn.h>
#include <link.h>

#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include "plugins/loader/loader.h"

namespace roda::plugins {
namespace {

namespace fs = std::filesystem;

// The folder of the shared library or program that this function was linked into; empty if the linker can't say.
fs::path own_folder() {
  Dl_info info{};
  link_map* map = nullptr;
  const auto address = reinterpret_cast<void*>(&own_folder);
  if (::dladdr1(address, &info, reinterpret_cast<void**>(&map), RTLD_DL_LINKMAP) == 0) return {};
  // A program's entry has no name of its own, and its dli_fname is only what argv[0] said.
  const bool is_program = map == nullptr || map->l_name == nullptr || *map->l_name == '\0';
  std::error_code error;
  const fs::path file = fs::canonical(is_program ? "/proc/self/exe" : info.dli_fname, error);
  return error ? fs::path() : file.parent_path();
}

void split(const char* text, std::vector<std::string>* folders) {
  for (const char* at = text; *at != '\0';) {
    const char* end = at;
    while (*end != '\0' && *end != ':') ++end;
    if (end != at) folders->emplace_back(at, end);
    at = *end == ':' ? end + 1 : end;
  }
}

// Where roda-build-plugin puts what it built for this user; empty without a home.
std::string users_folder() {
  const char* data = std::getenv("XDG_DATA_HOME");
  if (data != nullptr && *data == '/') return std::string(data) + "/roda/plugins";
  const char* home = std::getenv("HOME");
  return home != nullptr && *home == '/' ? std::string(home) + "/.local/share/roda/plugins" : "";
}

}  // namespace

std::vector<std::string> Loader::search_path() {
  std::vector<std::string> folders;
  if (const char* named = std::getenv("HOROVOD_PLUGIN_PATH")) split(named, &folders);
  if (std::string users = users_folder(); !users.empty()) folders.push_back(std::move(users));
  const fs::path folder = own_folder();
  if (folder.empty()) return folders;
  // Beside a library, below a wheel's package, and from a program in bin/ over to the library folder.
  for (const char* relative : {"roda/plugins", "../lib/roda/plugins", "../" RODA_LIBDIR "/roda/plugins", "plugins"}) {
    std::string path = (folder / relative).lexically_normal().string();
    if (folders.empty() || folders.back() != path) folders.push_back(std::move(path));
  }
  return folders;
}

}  // namespace roda::plugins

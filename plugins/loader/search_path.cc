#include <dlfcn.h>
#include <link.h>

#include <cstdlib>
#include <filesystem>
#include <sstream>
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
  const char* named = std::getenv("HOROVOD_PLUGIN_PATH");
  std::istringstream list(named != nullptr ? named : "");
  for (std::string folder; std::getline(list, folder, ':');) {
    if (!folder.empty()) folders.push_back(folder);
  }
  if (std::string users = users_folder(); !users.empty()) folders.push_back(std::move(users));
  const fs::path own = own_folder();
  if (own.empty()) return folders;
  // Beside a library, below a wheel's package, and from a program in bin/ over to the library folder.
  for (const char* relative : {"roda/plugins", "../lib/roda/plugins", "../" RODA_LIBDIR "/roda/plugins", "plugins"}) {
    std::string path = (own / relative).lexically_normal().string();
    if (folders.empty() || folders.back() != path) folders.push_back(std::move(path));
  }
  return folders;
}

}  // namespace roda::plugins

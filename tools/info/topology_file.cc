#include "tools/info/topology_file.h"

#include <filesystem>
#include <iostream>
#include <set>
#include <system_error>

namespace roda::tools {

namespace {

std::filesystem::path installed_folder() {
  std::error_code ignored;
  const auto program = std::filesystem::read_symlink("/proc/self/exe", ignored);
  return program.parent_path().parent_path() / "share" / "roda" / "topologies";
}

std::string installed_names() {
  std::error_code ignored;
  std::set<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(installed_folder(), ignored)) {
    names.insert(entry.path().stem().string());
  }
  std::string text;
  for (const std::string& name : names) text += (text.empty() ? "" : ", ") + name;
  return text.empty() ? "none is installed" : "there are " + text;
}

}  // namespace

std::optional<std::string> find_topology(const std::string& name) {
  std::error_code ignored;
  if (name.find('/') != std::string::npos || std::filesystem::exists(name, ignored)) return name;
  for (const char* suffix : {"", ".json"}) {
    const auto path = installed_folder() / (name + suffix);
    if (std::filesystem::is_regular_file(path, ignored)) return path.string();
  }
  std::cerr << "roda-info: no topology " << name << ": neither a file nor a name; " << installed_names() << "\n";
  return std::nullopt;
}

}  // namespace roda::tools

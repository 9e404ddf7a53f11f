#include "core/topology/kernel_files.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <fstream>
#include <string_view>

#include "plugins/base/unique_fd.h"

namespace roda::topology {

namespace {

// "0000:17:00.0"
bool is_pci_address(const std::string& name) {
  const std::size_t length = name.size();
  return length >= 12 && name[length - 2] == '.' && name[length - 5] == ':' && name[length - 8] == ':';
}

std::string trimmed(const std::string& text) {
  const std::size_t first = text.find_first_not_of(" \t");
  return first == std::string::npos ? "" : text.substr(first, text.find_last_not_of(" \t") - first + 1);
}

}  // namespace

std::string KernelFiles::line(const std::string& path) const {
  // Hundreds of small files: no stream, no buffer.
  const UniqueFd file(::open((root_ + path).c_str(), O_RDONLY | O_CLOEXEC));
  char text[4096];
  const ssize_t bytes = file ? ::read(file.get(), text, sizeof text) : -1;
  if (bytes <= 0) return "";
  const std::string_view whole(text, static_cast<std::size_t>(bytes));
  return trimmed(std::string(whole.substr(0, whole.find('\n'))));
}

std::int64_t KernelFiles::number(const std::string& path, std::int64_t otherwise) const {
  const std::string text = line(path);
  std::int64_t value = 0;
  return std::from_chars(text.data(), text.data() + text.size(), value).ec == std::errc() ? value : otherwise;
}

bool KernelFiles::exists(const std::string& path) const {
  std::error_code ignored;
  return std::filesystem::exists(root_ + path, ignored);
}

std::vector<std::string> KernelFiles::names(const std::string& folder) const {
  std::vector<std::string> found;
  std::error_code error;
  std::filesystem::directory_iterator entry(root_ + folder, error);
  for (; !error && entry != std::filesystem::directory_iterator(); entry.increment(error)) {
    found.push_back(entry->path().filename().string());
  }
  std::sort(found.begin(), found.end());
  return found;
}

PciPlace KernelFiles::pci_place(const std::string& path) const {
  PciPlace place;
  std::error_code error;
  const std::filesystem::path real = std::filesystem::canonical(root_ + path, error);
  if (error) return place;
  std::filesystem::path so_far, device;
  for (const std::filesystem::path& part : real) {
    so_far /= part;
    const std::string name = part.string();
    if (is_pci_address(name)) {
      if (!place.address.empty()) place.bridges.push_back(place.address);
      place.address = name;
      device = so_far;
    } else if (name.starts_with("pci") && place.bridges.empty() && place.address.empty()) {
      place.bridges.push_back(name);
    }
  }
  if (place.address.empty()) return {};
  int node = -1;
  if (std::ifstream(device / "numa_node") >> node && node >= 0) place.numa_node = node;
  return place;
}

}  // namespace roda::topology

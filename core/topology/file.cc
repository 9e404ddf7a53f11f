#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <system_error>

#include "core/topology/json.h"
#include "plugins/base/format.h"

namespace roda::topology {

Status load_file(const std::string& path, Topology* topology) {
  std::error_code error;
  const auto bytes = std::filesystem::file_size(path, error);
  if (error) return Status::invalid(roda::format("the topology file '{}' can't be read: {}", path, error.message()));
  if (bytes > kMostFileBytes) {
    return Status::invalid(
        roda::format("the topology file '{}' has {} bytes; {} are the most", path, bytes, kMostFileBytes));
  }
  std::string text(bytes, '\0');
  std::ifstream file(path, std::ios::binary);
  if (!file.read(text.data(), static_cast<std::streamsize>(bytes))) {
    return Status::invalid(roda::format("the topology file '{}' can't be read", path));
  }
  const Status status = from_json(text, topology);
  if (status.ok()) return {};
  return Status::invalid(roda::format("the topology file '{}' is malformed: {}", path, status.message()));
}

Status write_file(const std::string& path, const Topology& topology) {
  const std::string beside = roda::format("{}.{}", path, ::getpid());
  std::ofstream file(beside, std::ios::binary | std::ios::trunc);
  file << to_json(topology) << "\n";
  file.close();
  std::error_code error;
  if (file) std::filesystem::rename(beside, path, error);
  if (file && !error) return {};
  std::remove(beside.c_str());
  return Status::system(roda::format("the topology can't be written to '{}': {}", path,
                                     error ? error.message() : "the file can't be written"));
}

}  // namespace roda::topology

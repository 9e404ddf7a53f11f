// A folder of made-up /sys and /proc files, gone with the object.
#pragma once

#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

namespace roda {

class Folder {
 public:
  Folder() {
    std::string name = std::filesystem::temp_directory_path() / "roda-topology-XXXXXX";
    path_ = ::mkdtemp(name.data());
  }
  ~Folder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;

  const std::string& path() const { return path_; }

  void write(const std::string& file, const std::string& text) const {
    const std::filesystem::path whole = path_ + file;
    std::filesystem::create_directories(whole.parent_path());
    std::ofstream(whole) << text << "\n";
  }
  // A link at `from` that leads to the folder `to`, both below this one; `to` is made.
  void link(const std::string& from, const std::string& to) const {
    const std::filesystem::path whole = path_ + from;
    std::filesystem::create_directories(whole.parent_path());
    std::filesystem::create_directories(path_ + to);
    std::filesystem::create_directory_symlink(path_ + to, whole);
  }

 private:
  std::string path_;
};

}  // namespace roda

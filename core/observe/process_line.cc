#include "core/observe/process_line.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string_view>
#include <thread>

#include "plugins/base/unique_fd.h"

namespace roda::observe {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kMost{300};
constexpr milliseconds kLook{5};

// 'S', 'T', ...; 0: there is no such process.
char state_of(const std::string& folder) {
  std::ifstream file(folder + "/stat");
  std::string text;
  std::getline(file, text);
  const auto name_ends = text.rfind(')');  // a name may have any character
  return name_ends == std::string::npos || name_ends + 2 >= text.size() ? '\0' : text[name_ends + 2];
}

UniqueFd open_stack(const std::string& folder) {
  std::error_code gone;
  for (const auto& each : std::filesystem::directory_iterator(folder + "/fd", gone)) {
    const std::string path = std::filesystem::read_symlink(each.path(), gone).string();
    if (path.find("/roda-stack-") != std::string::npos && path.ends_with(" (deleted)")) {
      return UniqueFd(::open(each.path().c_str(), O_RDWR | O_CLOEXEC));
    }
  }
  return UniqueFd();
}

// Once two looks find the same.
std::string read_once_written(int file) {
  off_t size = 0;
  for (milliseconds waited{0}; waited < kMost; waited += kLook) {
    std::this_thread::sleep_for(kLook);
    struct stat now {};
    if (::fstat(file, &now) != 0) return {};
    if (now.st_size != 0 && now.st_size == size) break;
    size = now.st_size;
  }
  std::string text(static_cast<std::size_t>(size), '\0');
  const ssize_t count = ::pread(file, text.data(), text.size(), 0);
  text.resize(count < 0 ? 0 : static_cast<std::size_t>(count));
  return text;
}

bool is_librarys(std::string_view path) {
  for (const std::string_view folder : {"/site-packages/", "/dist-packages/", "/lib/python3", "<frozen"}) {
    if (path.find(folder) != std::string_view::npos) return true;
  }
  return false;
}

// Of lines as `  File "/users/me/train.py", line 57 in step`, the innermost first.
std::string line_in(const std::string& stack) {
  constexpr std::string_view kFile = "  File \"";
  constexpr std::string_view kLine = "\", line ";
  std::istringstream lines(stack);
  for (std::string line; std::getline(lines, line);) {
    const auto number = line.rfind(kLine);
    if (!line.starts_with(kFile) || number == std::string::npos) continue;
    const std::string path = line.substr(kFile.size(), number - kFile.size());
    const std::string rest = line.substr(number + kLine.size());
    if (!is_librarys(path)) return path + ":" + rest.substr(0, rest.find(' '));
  }
  return {};
}

}  // namespace

std::string where_process_is(int pid) {
  const std::string folder = "/proc/" + std::to_string(pid);
  switch (state_of(folder)) {
    case '\0':
    case 'X':
    case 'Z':
      return ", and its process is gone";
    case 'T':
      return ", and its process is stopped";
    case 't':
      return ", and its process is in a debugger";
    default:
      break;
  }
  const std::string line = line_of_process(pid);
  return line.empty() ? "" : ", and is at " + line;
}

std::string line_of_process(int pid) {
  const UniqueFd file = open_stack("/proc/" + std::to_string(pid));
  // Whoever else asks for this stack at this time has its answer written into the same file.
  if (!file || ::flock(file.get(), LOCK_EX | LOCK_NB) != 0) return {};
  if (::ftruncate(file.get(), 0) != 0 || ::kill(pid, SIGURG) != 0) return {};
  return line_in(read_once_written(file.get()));
}

}  // namespace roda::observe

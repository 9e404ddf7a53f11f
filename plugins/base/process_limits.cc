#include "plugins/base/process_limits.h"

#include <sys/resource.h>
#include <unistd.h>

#include <cerrno>
#include <fstream>

namespace roda {
namespace {

std::uint64_t limit_of(__rlimit_resource resource) {
  rlimit limit{};
  return ::getrlimit(resource, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY ? kNoLimit : limit.rlim_cur;
}

std::string mebibytes(std::uint64_t bytes) { return std::to_string(bytes >> 20) + " MiB"; }

std::uint64_t address_space_taken() {
  std::uint64_t pages = 0;
  std::ifstream("/proc/self/statm") >> pages;
  return pages * static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
}

// "pids.max of /a/b is 10" for the closest control group above this process that has a limit; "" where none has.
std::string pids_limit() {
  std::ifstream groups("/proc/self/cgroup");
  for (std::string line; std::getline(groups, line);) {
    const std::size_t path = line.find(':', line.find(':') + 1);
    const bool is_unified = line.starts_with("0::");
    if (path == std::string::npos || (!is_unified && line.find("pids") > path)) continue;
    const std::string root = is_unified ? "/sys/fs/cgroup" : "/sys/fs/cgroup/pids";
    for (std::string group = line.substr(path + 1);; group.resize(group.rfind('/'))) {
      std::string most, now;
      std::ifstream(root + group + "/pids.max") >> most;
      std::ifstream(root + group + "/pids.current") >> now;
      if (!most.empty() && most != "max") {
        return "the control group " + (group.empty() ? "/" : group) + " may have " + most +
               " processes and threads (pids.max), and has " + now;
      }
      if (group.find('/') == std::string::npos) break;
    }
  }
  return "";
}

}  // namespace

std::uint64_t address_space_left() {
  const std::uint64_t limit = limit_of(RLIMIT_AS);
  if (limit == kNoLimit) return kNoLimit;
  const std::uint64_t taken = address_space_taken();
  return limit > taken ? limit - taken : 0;
}

std::uint64_t largest_file() { return limit_of(RLIMIT_FSIZE); }

std::string address_space_limit() {
  const std::uint64_t limit = limit_of(RLIMIT_AS);
  if (limit == kNoLimit) return "";
  return "RLIMIT_AS, `ulimit -v`: " + mebibytes(limit) + ", of which " + std::to_string(address_space_taken() >> 20) +
         " are taken";
}

std::string file_size_limit() {
  const std::uint64_t limit = limit_of(RLIMIT_FSIZE);
  return limit == kNoLimit ? "" : "RLIMIT_FSIZE, `ulimit -f`: " + std::to_string(limit >> 10) + " KiB";
}

std::string limit_behind(int error) {
  const std::uint64_t files = limit_of(RLIMIT_NOFILE);
  if (error == EMFILE && files != kNoLimit) {
    return "; this process may have " + std::to_string(files) +
           " open files (RLIMIT_NOFILE): raise that with `ulimit -n`";
  }
  if (error == ENFILE) return "; the machine's limit on open files (fs.file-max) is reached: raise it with sysctl";
  if (error == ENOMEM && !address_space_limit().empty()) {
    return "; the address space of this process is limited (" + address_space_limit() + "): raise that limit";
  }
  if (error == EFBIG && !file_size_limit().empty()) {
    return "; the size of files is limited (" + file_size_limit() + "): raise that limit";
  }
  return "";
}

std::string thread_limits() {
  const std::uint64_t processes = limit_of(RLIMIT_NPROC);
  std::string all = pids_limit();
  if (processes != kNoLimit) {
    all += (all.empty() ? "" : "; ") + std::string("this user may have ") + std::to_string(processes) +
           " processes and threads (RLIMIT_NPROC, `ulimit -u`)";
  }
  if (all.empty()) all = "the machine may have as many as kernel.threads-max and kernel.pid_max say";
  return all + ". Raise that, or start fewer ranks and threads (OMP_NUM_THREADS)";
}

}  // namespace roda

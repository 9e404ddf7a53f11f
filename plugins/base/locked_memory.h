// What to tell a user whose memory could not be locked for a device.
#pragma once

#include <sys/resource.h>

#include <string>

namespace roda {

// No limit on it (a process with CAP_IPC_LOCK may have one that does not hold).
inline bool may_lock_all_memory() {
  rlimit limit{};
  return ::getrlimit(RLIMIT_MEMLOCK, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY;
}

// The limit of this process and how to raise it, to follow a text; empty where there is no limit.
inline std::string locked_memory_advice() {
  if (may_lock_all_memory()) return "";
  rlimit limit{};
  static_cast<void>(::getrlimit(RLIMIT_MEMLOCK, &limit));
  return "; this process may lock " + std::to_string(limit.rlim_cur / 1024) +
         " KiB of memory (RLIMIT_MEMLOCK): raise that with `ulimit -l unlimited`, LimitMEMLOCK=infinity in the service "
         "that starts the job, or a memlock line in /etc/security/limits.conf";
}

}  // namespace roda

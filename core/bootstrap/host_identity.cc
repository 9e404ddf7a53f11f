#include "core/bootstrap/host_identity.h"

#include <limits.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>

namespace roda {

HostIdentity this_host(const std::string& hostname_override) {
  HostIdentity host;
  std::ifstream(kBootIdFile) >> host.boot_id;
  host.hostname = hostname_override;
  if (host.hostname.empty()) {
    char name[HOST_NAME_MAX + 1] = "";
    if (::gethostname(name, sizeof name - 1) == 0) host.hostname = name;
  }
  // It travels in a line of text.
  std::replace_if(
      host.hostname.begin(), host.hostname.end(), [](unsigned char c) { return c <= ' ' || c == 0x7f; }, '_');
  struct stat info {};
  if (::stat("/proc/self/ns/net", &info) == 0) host.network_namespace = info.st_ino;
  return host;
}

}  // namespace roda

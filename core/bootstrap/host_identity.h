// What makes two processes neighbours.
#pragma once

#include <cstdint>
#include <string>

#include "plugins/base/status.h"

namespace roda {

// A host is (boot id, host name, network namespace). Two containers on one machine are two hosts; HOROVOD_HOSTNAME lets
// a launcher draw the line elsewhere.
struct HostIdentity {
  std::string boot_id;
  std::string hostname;
  std::uint64_t network_namespace = 0;  // inode; 0 where there is none to ask

  friend bool operator==(const HostIdentity&, const HostIdentity&) = default;
};

inline constexpr const char* kBootIdFile = "/proc/sys/kernel/random/boot_id";

// `hostname_override` empty: the machine's own name. What can't be read is left empty.
HostIdentity this_host(const std::string& hostname_override);

}  // namespace roda

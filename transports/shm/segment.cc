#include "transports/shm/segment.h"

#include <sys/prctl.h>
#include <sys/uio.h>
#include <unistd.h>
#include <roda/sdk/error.hpp>

#include <cerrno>
#include <cstring>
#include <fstream>

#include "plugins/base/process_limits.h"

namespace roda::shm {
namespace {

using Move = ssize_t (*)(pid_t, const iovec*, unsigned long, const iovec*, unsigned long, unsigned long);

int move_all(Move move, pid_t pid, void* local, std::uint64_t remote, std::size_t bytes) {
  auto here = static_cast<char*>(local);
  while (bytes > 0) {
    iovec ours{here, bytes};
    iovec theirs{reinterpret_cast<void*>(remote), bytes};
    ssize_t moved = move(pid, &ours, 1, &theirs, 1, 0);
    if (moved < 0 && errno == EINTR) continue;
    if (moved <= 0) return moved < 0 ? errno : EFAULT;
    here += moved;
    remote += static_cast<std::uint64_t>(moved);
    bytes -= static_cast<std::size_t>(moved);
  }
  return 0;
}

// Yama's scope: 0 anybody of the user, 1 descendants and whom the target allows, 2 the administrator, 3 nobody.
int ptrace_scope() {
  int scope = 0;
  std::ifstream("/proc/sys/kernel/yama/ptrace_scope") >> scope;
  return scope;
}

}  // namespace

std::uint64_t room_for_group() {
  const std::uint64_t left = address_space_left();
  return left == kNoLimit ? kNoLimit : left / 4;
}

void check_room(int size, std::uint64_t room) {
  const std::uint64_t least = Layout::least_bytes(size), all = least * static_cast<std::uint64_t>(size);
  const std::string segments = "the shared memory of " + std::to_string(size) + " ranks takes at least ";
  if (room < all) {
    throw sdk::Failure(RODA_ERR_UNAVAILABLE, segments + std::to_string(all >> 20) + " MiB of address space, and " +
                                                 std::to_string(room >> 20) + " can be spared (" +
                                                 address_space_limit() + "): raise that limit");
  }
  if (largest_file() < least) {
    throw sdk::Failure(RODA_ERR_UNAVAILABLE, segments + std::to_string(least >> 20) +
                                                 " MiB in a file without a name, and files may not be so long (" +
                                                 file_size_limit() + "): raise that limit");
  }
}

bool cma_allowed(std::string* reason) {
  const int scope = ptrace_scope();
  if (scope >= 2 && (scope > 2 || ::geteuid() != 0)) {
    *reason = "kernel.yama.ptrace_scope is " + std::to_string(scope);
    return false;
  }
  std::uint64_t source = 1, target = 0;
  if (int error = cma_read(::getpid(), &target, reinterpret_cast<std::uint64_t>(&source), sizeof source); error != 0) {
    *reason = std::string("process_vm_readv: ") + std::strerror(error);
    return false;
  }
  // One process could be named, and ranks have several peers; docs/security.md says what that opens.
  if (scope == 1) (void)::prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY, 0, 0, 0);
  return true;
}

int cma_read(pid_t pid, void* to, std::uint64_t from, std::size_t bytes) {
  return move_all(::process_vm_readv, pid, to, from, bytes);
}

int cma_write(pid_t pid, std::uint64_t to, const void* from, std::size_t bytes) {
  return move_all(::process_vm_writev, pid, const_cast<void*>(from), to, bytes);
}

}  // namespace roda::shm

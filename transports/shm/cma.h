// Cross-memory attach: the kernel copies between the private memory of two processes. Any thread.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <string>

namespace roda::shm {

// True when this kernel and its settings let processes of one user reach into each other; otherwise *reason says what
// forbids it. A guess that keeps capabilities honest: each peer is tried for real when a group forms. Where Yama asks
// for it, declares this process open to its user's other processes.
bool cma_allowed(std::string* reason);

// 0, or an errno. Moves all bytes or fails.
int cma_read(pid_t pid, void* to, std::uint64_t from, std::size_t bytes);
int cma_write(pid_t pid, std::uint64_t to, const void* from, std::size_t bytes);

}  // namespace roda::shm

// Keeps the connections of a library out of forked children and of programs that are started.
//
// A DataLoader worker that holds a copy of a connection would hide its parent's death from the peers. The descriptors
// are the library's, which closes them when it likes, so that a number may have been reused: a child closes one only if
// it still is the same socket. For descriptors of our own there is ForkGuard.
#pragma once

#include <vector>

namespace roda {

// 0: not a socket.
unsigned long socket_inode(int fd);

// Marks the sockets close-on-exec and remembers them as `owner`'s for forks, in place of those it had. What is no
// socket is left alone. Any thread.
void guard_sockets(const void* owner, const std::vector<int>& fds);
void forget_sockets(const void* owner);

}  // namespace roda

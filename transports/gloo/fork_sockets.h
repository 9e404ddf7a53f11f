// Closes Gloo's sockets in forked children, and keeps them out of programs that are started.
//
// A DataLoader worker that holds a copy of a connection would hide its parent's death from the peers. Gloo owns the
// descriptors and closes them when it likes, so that a number may have been reused: before a child closes one, it
// checks that it still is the same connection.
#pragma once

#include <sys/socket.h>

#include <vector>

namespace roda::gloo {

// Finds this process's descriptors that are bound to one of `local`, marks them close-on-exec, and remembers them as
// `owner`'s for forks. Gives back one for each of `local`, -1 where there is none or more than one. Any thread.
std::vector<int> guard_sockets(const void* owner, const std::vector<sockaddr_storage>& local);
void forget_sockets(const void* owner);

}  // namespace roda::gloo

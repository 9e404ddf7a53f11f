// Keeps a worker's connections out of forked children and of programs that are started.
//
// A DataLoader worker that holds a copy of a connection would hide its parent's death from the peers. The descriptors
// are UCX's, which closes them when it likes, so that a number may have been reused: a child closes one only if it
// still is the same socket.
#pragma once

namespace roda::ucx {

// Finds the sockets that the event descriptor of a worker watches, marks them close-on-exec, and remembers them as
// `owner`'s for forks. To be called again when there may be new ones. Any thread.
void guard_sockets(const void* owner, int event_fd);
void forget_sockets(const void* owner);

}  // namespace roda::ucx

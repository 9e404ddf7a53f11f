// The system's calls as they are, for those who play the system.
#pragma once

#include <poll.h>
#include <sys/socket.h>

#include <vector>

namespace roda::seeds {

int real_poll(std::vector<pollfd>& descriptors);  // does not wait
int real_setsockopt(int fd, int level, int name, const void* value, socklen_t length);
// What `fd` stood for is closed, and it stands for what `other` does.
int close_under(int fd, int other);

}  // namespace roda::seeds

// Small messages with file descriptors between processes of one host and one user, without a name in the file system.
// Peers learn each other's address() by other means.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "plugins/base/status.h"
#include "plugins/base/unique_fd.h"

namespace roda {

// A datagram socket in the abstract Unix namespace (so it is gone with its process), under a random 128-bit name. The
// kernel vouches for the sender's process and user; messages of other users are dropped unread. The name is listed in
// /proc/net/unix and thus no secret: who must be more than "the same user" proves it in the payload.
// Reaches processes in the same network namespace. Non-blocking, close-on-exec. Threads: one at a time.
class FdMailbox {
 public:
  static constexpr std::size_t kMaxPayload = 1024;
  static constexpr std::size_t kMaxFds = 8;

  struct Message {
    std::uint64_t tag = 0;
    pid_t sender = 0;  // as the receiver's pid namespace sees it; 0 when it doesn't
    std::vector<std::byte> payload;
    std::vector<UniqueFd> fds;  // close-on-exec
  };

  FdMailbox() = default;
  static Status open(FdMailbox* out);

  // Printable; what send() of another process takes. At most 64 bytes.
  const std::string& address() const { return address_; }

  // *sent false: the receiver's queue is full, try again after it had time to read. RODA_ERR_PEER: nobody has that
  // address (any more). The descriptors stay the caller's.
  Status send(const std::string& address, std::uint64_t tag, std::span<const std::byte> payload,
              std::span<const int> fds, bool* sent);

  // *received false: nothing there. Skips messages of other users and malformed ones.
  Status receive(Message* message, bool* received);

  // Readable when receive() may have something.
  int fd() const { return socket_.get(); }
  explicit operator bool() const { return static_cast<bool>(socket_); }
  void close() { socket_.reset(); }

 private:
  UniqueFd socket_;
  std::string address_;
};

}  // namespace roda

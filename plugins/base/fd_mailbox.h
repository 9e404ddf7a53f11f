// Small messages with file descriptors between processes of one host and one user, without a name in the file system;
// and a message of each for all. Peers learn each other's address() by other means.
#pragma once

#include <sys/socket.h>
#include <sys/un.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "plugins/base/status.h"
#include "plugins/base/unique_fd.h"

namespace roda {

// In the abstract Unix namespace: no file, and gone with the process that has the socket.
struct AbstractAddress {
  // Length 0: the name is empty, or too long.
  explicit AbstractAddress(const std::string& name);
  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&storage); }

  sockaddr_un storage{};
  socklen_t length = 0;
};

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

// Every member of a group gives every other one its message, the same to all. Threads: one at a time; nothing blocks.
class FdExchange {
 public:
  static Status open(int self, int size, FdExchange* out);
  const std::string& address() const { return mailbox_.address(); }
  int fd() const { return mailbox_.fd(); }
  void close() { mailbox_.close(); }

  struct Own {
    std::uint64_t tag;
    std::span<const std::byte> payload;
    std::span<const int> fds;
  };
  using AddressOf = std::function<std::string(int member)>;
  // A message of the same tag. *member: whose it is; -1, as it is before, for a stranger's, which is skipped.
  using Take = std::function<Status(FdMailbox::Message message, int* member)>;
  // Gives to whom there is room at and takes what is there. To be called until is_over(): after fd() became readable,
  // and now and then while holds(). *gone, where an error came of it: the member that nobody listens for any more.
  Status step(const Own& own, const AddressOf& address_of, const Take& take, int* gone);

  int given() const { return given_; }
  bool holds() const { return given_ < size_ - 1; }
  // True of oneself.
  bool has_taken(int member) const { return taken_[static_cast<std::size_t>(member)]; }
  // While it is not over: the first whose message is missing, else the one that has no room for ours.
  int waits_for() const {
    const auto silent = std::find(taken_.begin(), taken_.end(), false);
    return silent != taken_.end() ? static_cast<int>(silent - taken_.begin()) : (self_ + 1 + given_) % size_;
  }
  bool is_over() const { return !holds() && missing_ == 0; }

 private:
  Status take_all(std::uint64_t tag, const Take& take);

  FdMailbox mailbox_;
  int self_ = 0;
  int size_ = 1;
  int given_ = 0;  // to the right neighbours
  int missing_ = 0;
  std::vector<bool> taken_;
};

}  // namespace roda

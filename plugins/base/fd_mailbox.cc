#include "plugins/base/fd_mailbox.h"

#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "plugins/base/hmac.h"

namespace roda {

namespace {

constexpr std::uint32_t kBoxMagic = 0x786f6272;  // "rbox"

struct Header {
  std::uint32_t magic;
  std::uint32_t payload_bytes;
  std::uint64_t tag;
};

// Room for the credentials and the most descriptors.
constexpr std::size_t kControlBytes = CMSG_SPACE(sizeof(ucred)) + CMSG_SPACE(FdMailbox::kMaxFds * sizeof(int));

void take_fds(const cmsghdr* part, std::vector<UniqueFd>* fds) {
  std::size_t count = (part->cmsg_len - CMSG_LEN(0)) / sizeof(int);
  for (std::size_t i = 0; i < count; ++i) {
    int fd;
    std::memcpy(&fd, CMSG_DATA(part) + i * sizeof(int), sizeof fd);
    fds->emplace_back(fd);
  }
}

}  // namespace

// Abstract names begin with a zero byte and end with the length, not with a zero.
AbstractAddress::AbstractAddress(const std::string& name) {
  if (name.empty() || name.size() >= sizeof storage.sun_path) return;
  storage.sun_family = AF_UNIX;
  std::memcpy(storage.sun_path + 1, name.data(), name.size());
  length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
}

Status FdMailbox::open(FdMailbox* out) {
  FdMailbox box;
  box.socket_.reset(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!box.socket_) return Status::of_errno("opening a Unix socket");
  const int on = 1;
  const int set = ::setsockopt(box.socket_.get(), SOL_SOCKET, SO_PASSCRED, &on, sizeof on);
  if (set != 0) return Status::of_errno("SO_PASSCRED");
  box.address_ = "roda-" + random_name();
  const AbstractAddress own(box.address_);
  if (::bind(box.socket_.get(), own.get(), own.length) != 0) return Status::of_errno("binding a Unix socket");
  *out = std::move(box);
  return {};
}

Status FdMailbox::send(const std::string& address, std::uint64_t tag, std::span<const std::byte> payload,
                       std::span<const int> fds, bool* sent) {
  *sent = false;
  AbstractAddress to(address);
  if (payload.size() > kMaxPayload || fds.size() > kMaxFds || to.length == 0) {
    return Status::invalid("a mailbox message that is too long, or an address that is none");
  }
  Header header{kBoxMagic, static_cast<std::uint32_t>(payload.size()), tag};
  iovec parts[2] = {{&header, sizeof header}, {const_cast<std::byte*>(payload.data()), payload.size()}};
  alignas(cmsghdr) char control[kControlBytes] = {};
  msghdr message{};
  message.msg_name = &to.storage;
  message.msg_namelen = to.length;
  message.msg_iov = parts;
  message.msg_iovlen = 2;
  if (!fds.empty()) {
    message.msg_control = control;
    message.msg_controllen = CMSG_SPACE(fds.size_bytes());
    cmsghdr* part = CMSG_FIRSTHDR(&message);
    part->cmsg_level = SOL_SOCKET;
    part->cmsg_type = SCM_RIGHTS;
    part->cmsg_len = CMSG_LEN(fds.size_bytes());
    std::memcpy(CMSG_DATA(part), fds.data(), fds.size_bytes());
  }
  const ssize_t rc = ::sendmsg(socket_.get(), &message, MSG_DONTWAIT | MSG_NOSIGNAL);
  // ETOOMANYREFS: too many descriptors of this user are in flight; the receivers' reading frees them.
  if (rc < 0 && (errno == EAGAIN || errno == EINTR || errno == ENOBUFS || errno == ETOOMANYREFS)) return {};
  if (rc < 0 && (errno == ECONNREFUSED || errno == ENOENT)) return Status::peer(-1, "nobody listens at " + address);
  if (rc < 0) return Status::of_errno("sending to " + address);
  *sent = true;
  return {};
}

Status FdMailbox::receive(Message* out, bool* received) {
  *received = false;
  for (;;) {
    Header header{};
    std::byte payload[kMaxPayload];
    iovec parts[2] = {{&header, sizeof header}, {payload, sizeof payload}};
    alignas(cmsghdr) char control[kControlBytes];
    msghdr message{};
    message.msg_iov = parts;
    message.msg_iovlen = 2;
    message.msg_control = control;
    message.msg_controllen = sizeof control;
    ssize_t rc = ::recvmsg(socket_.get(), &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    if (rc < 0 && errno == EINTR) continue;
    if (rc < 0 && errno == EAGAIN) return {};
    if (rc < 0) return Status::of_errno("reading a Unix socket");

    ucred sender{};
    sender.uid = static_cast<uid_t>(-1);
    std::vector<UniqueFd> fds;
    for (cmsghdr* part = CMSG_FIRSTHDR(&message); part != nullptr; part = CMSG_NXTHDR(&message, part)) {
      if (part->cmsg_level != SOL_SOCKET) continue;
      if (part->cmsg_type == SCM_CREDENTIALS) std::memcpy(&sender, CMSG_DATA(part), sizeof sender);
      if (part->cmsg_type == SCM_RIGHTS) take_fds(part, &fds);
    }
    if (sender.uid != ::geteuid() && sender.uid != ::getuid()) continue;
    if (static_cast<std::size_t>(rc) < sizeof header || header.magic != kBoxMagic ||
        header.payload_bytes != static_cast<std::size_t>(rc) - sizeof header || (message.msg_flags & MSG_TRUNC) != 0) {
      continue;
    }
    if ((message.msg_flags & MSG_CTRUNC) != 0) {
      return Status::system("no room for a descriptor that a peer sent: raise the limit of open files (ulimit -n)");
    }
    out->tag = header.tag;
    out->sender = sender.pid;
    out->payload.assign(payload, payload + header.payload_bytes);
    out->fds = std::move(fds);
    *received = true;
    return {};
  }
}

Status FdExchange::open(int self, int size, FdExchange* out) {
  out->self_ = self;
  out->size_ = size;
  out->missing_ = size - 1;
  out->taken_.assign(static_cast<std::size_t>(size), false);
  out->taken_[static_cast<std::size_t>(self)] = true;
  return FdMailbox::open(&out->mailbox_);
}

// A mailbox holds ten messages (net.unix.max_dgram_qlen): who gives takes as well, and the right neighbour comes first,
// so that none is filled by all at once.
Status FdExchange::step(const Own& own, const AddressOf& address_of, const Take& take, int* gone) {
  for (bool has_room = true; has_room && holds();) {
    const int member = (self_ + 1 + given_) % size_;
    const Status status = mailbox_.send(address_of(member), own.tag, own.payload, own.fds, &has_room);
    if (status.code() == RODA_ERR_PEER) *gone = member;
    RODA_RETURN_IF_ERROR(status);
    given_ += has_room ? 1 : 0;
    RODA_RETURN_IF_ERROR(take_all(own.tag, take));
  }
  return take_all(own.tag, take);
}

Status FdExchange::take_all(std::uint64_t tag, const Take& take) {
  for (;;) {
    FdMailbox::Message message;
    bool received = false;
    RODA_RETURN_IF_ERROR(mailbox_.receive(&message, &received));
    if (!received) return {};
    int member = -1;
    if (message.tag == tag) RODA_RETURN_IF_ERROR(take(std::move(message), &member));
    if (member < 0) continue;
    taken_[static_cast<std::size_t>(member)] = true;
    --missing_;
  }
}

}  // namespace roda

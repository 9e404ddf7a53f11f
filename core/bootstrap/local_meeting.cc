#include "core/bootstrap/local_meeting.h"

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <set>
#include <thread>

#include "plugins/base/fd_mailbox.h"
#include "plugins/base/format.h"
#include "plugins/base/hmac.h"
#include "plugins/base/log.h"

namespace roda {
namespace {

// A rank's first message.
struct Hello {
  char magic[8] = {'r', 'o', 'd', 'a', 'm', 'e', 'e', 't'};
  std::int32_t rank = 0;
};

constexpr std::chrono::milliseconds kAttemptPause{20};  // between attempts, while rank 0 is not there
constexpr std::chrono::seconds kLastWord{3};            // for rank 0 to say who has not come, after the deadline

Status open_socket(UniqueFd* fd) {
  fd->reset(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  return *fd ? Status() : Status::of_errno("socket");
}

// Who is at the other end: for one that connects as it was then, for one that listens as it was when it began to.
ucred credentials(int fd) {
  ucred peer{};
  peer.uid = static_cast<uid_t>(-1);
  socklen_t length = sizeof peer;
  static_cast<void>(::getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &length));
  return peer;
}

// Readable, or the deadline.
bool wait_readable(std::vector<pollfd>* entries, Deadline deadline) {
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - Store::Clock::now());
  return ::poll(entries->data(), entries->size(), static_cast<int>(std::clamp<std::int64_t>(left.count(), 0, 60'000))) >
         0;
}

Status connect_to(const std::string& name, Deadline deadline, UniqueFd* socket) {
  const AbstractAddress address(name);
  RODA_RETURN_IF_ERROR(open_socket(socket));
  while (::connect(socket->get(), address.get(), address.length) != 0) {
    const bool is_early = errno == ECONNREFUSED || errno == EAGAIN || errno == EINTR;
    if (!is_early) return Status::of_errno("connecting to rank 0 on this host");
    if (Store::Clock::now() >= deadline) return Status::timeout("rank 0 has not come on this host, under this user");
    std::this_thread::sleep_for(kAttemptPause);
  }
  const ucred peer = credentials(socket->get());
  if (peer.uid == ::geteuid()) return {};
  return Status::auth(roda::format("process {} of user {} stands where rank 0 should, which is of this user ({})",
                                   peer.pid, peer.uid, ::geteuid()));
}

}  // namespace

std::string LocalMeeting::name_of(const std::string& identity) {
  Digest digest{};
  static_cast<void>(hmac_sha256(bytes_of("a job's identity"), {bytes_of(identity)}, &digest));
  std::string name = roda::format("roda.{}.", ::geteuid());
  for (std::size_t i = 0; i < 16; ++i) name += roda::format("{:02x}", digest[i]);
  return name;
}

Status LocalMeeting::open(const std::string& name, Deadline deadline) {
  const AbstractAddress address(name);
  RODA_RETURN_IF_ERROR(open_socket(&listener_));
  guard_ = ForkGuard(listener_.get());
  while (::bind(listener_.get(), address.get(), address.length) != 0) {
    if (errno != EADDRINUSE) return Status::of_errno("binding a socket");
    if (Store::Clock::now() >= deadline) {
      UniqueFd taker;
      if (const Status who = connect_to(name, deadline, &taker); who.code() == RODA_ERR_AUTH) return who;
      return Status::precondition(
          "another rank 0 of this job runs on this host: give every job a MASTER_PORT of its own");
    }
    std::this_thread::sleep_for(kAttemptPause);
  }
  if (::listen(listener_.get(), SOMAXCONN) != 0) return Status::of_errno("listen");
  return {};
}

void LocalMeeting::let_in() {
  while (true) {
    Guest guest;
    guest.socket.reset(::accept4(listener_.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
    if (!guest.socket) return;
    const ucred peer = credentials(guest.socket.get());
    guest.pid = peer.pid;
    if (peer.uid == ::geteuid()) {
      guests_.push_back(std::move(guest));
    } else {
      RODA_LOG(warning, "process {} of user {} wanted to take part in a job of user {}", peer.pid, peer.uid,
               ::geteuid());
    }
  }
}

Status LocalMeeting::hear(Guest* guest, int size) const {
  Hello hello;
  const ssize_t got = ::recv(guest->socket.get(), &hello, sizeof hello, 0);
  if (got < 0 && (errno == EAGAIN || errno == EINTR)) return {};
  if (guest->rank >= 0) {
    return Status::peer(guest->rank, roda::format("Rank {} (process {}) ended while the job was starting. Look at its "
                                                  "output for the cause.",
                                                  guest->rank, guest->pid));
  }
  const bool is_sound = got == sizeof hello && std::memcmp(hello.magic, Hello().magic, sizeof hello.magic) == 0;
  if (!is_sound || hello.rank <= 0 || hello.rank >= size) {
    guest->socket.reset();  // no rank of this job
    return {};
  }
  for (const Guest& other : guests_) {
    if (other.rank != hello.rank) continue;
    return Status::precondition(
        roda::format("rank {} was started twice, as process {} and as process {}: give every "
                     "process a rank of its own, and every job a MASTER_PORT of its own",
                     hello.rank, other.pid, guest->pid));
  }
  guest->rank = hello.rank;
  return {};
}

std::string LocalMeeting::missing(int size) const {
  std::set<int> ranks;
  for (int rank = 1; rank < size; ++rank) ranks.insert(rank);
  for (const Guest& guest : guests_) ranks.erase(guest.rank);
  const bool is_one = ranks.size() == 1;
  std::string named = roda::join(ranks, ", ");
  if (named.size() > 200) named = named.substr(0, named.rfind(',', 200)) + ", …";
  return roda::format("rank{} {} of {} {} not come", is_one ? "" : "s", named, size, is_one ? "has" : "have");
}

Status LocalMeeting::wait_for_all(int size, Deadline deadline) {
  const auto has_come = [](const Guest& guest) { return guest.rank >= 0; };
  while (std::ranges::count_if(guests_, has_come) < size - 1) {
    std::vector<pollfd> entries{{listener_.get(), POLLIN, 0}};
    for (const Guest& guest : guests_) entries.push_back({guest.socket.get(), POLLIN, 0});
    if (!wait_readable(&entries, deadline) && Store::Clock::now() >= deadline) return Status::timeout(missing(size));
    for (std::size_t i = 1; i < entries.size(); ++i) {
      if (entries[i].revents != 0) RODA_RETURN_IF_ERROR(hear(&guests_[i - 1], size));
    }
    std::erase_if(guests_, [](const Guest& guest) { return !guest.socket; });
    if (entries[0].revents != 0) let_in();
  }
  return {};
}

void LocalMeeting::tell_all(const Invitation& invitation) const {
  for (const Guest& guest : guests_) {
    static_cast<void>(::send(guest.socket.get(), &invitation, sizeof invitation, MSG_NOSIGNAL));
  }
}

Status LocalMeeting::join(const std::string& name, int rank, Deadline deadline, Invitation* invitation) {
  UniqueFd socket;
  RODA_RETURN_IF_ERROR(connect_to(name, deadline, &socket));
  Hello hello;
  hello.rank = rank;
  ssize_t done = ::send(socket.get(), &hello, sizeof hello, MSG_NOSIGNAL);
  std::vector<pollfd> entries{{socket.get(), POLLIN, 0}};
  const Deadline last = std::max(deadline, Store::Clock::now()) + kLastWord;
  while (done == sizeof hello) {
    const bool is_readable = wait_readable(&entries, last);
    const ssize_t got = is_readable ? ::recv(socket.get(), invitation, sizeof *invitation, 0) : -1;
    if (got == static_cast<ssize_t>(sizeof *invitation)) return {};
    if (got >= 0 || (is_readable && errno != EAGAIN && errno != EINTR)) break;
    if (Store::Clock::now() >= last) return Status::timeout("rank 0 on this host does not answer");
  }
  return Status::peer(0,
                      roda::format("Rank 0 (process {}) ended while the job was starting. Look at its output for the "
                                   "cause.",
                                   credentials(socket.get()).pid));
}

}  // namespace roda

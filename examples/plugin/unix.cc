// An example transport: messages between the ranks of one host as Unix datagrams, which arrive reliably and in order.
//
// It shows the least that a transport must do: form groups over the exchange, match messages by (peer, tag), let its
// user sleep, and end everything when a group is aborted. A message is copied when it is sent, so sends are done at
// once.
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <roda/sdk/doorbell.hpp>
#include <roda/sdk/exchange.hpp>
#include <roda/sdk/plugin.hpp>
#include <roda/sdk/request_pool.hpp>

#include <algorithm>
#include <chrono>
#include <deque>

namespace {

using Clock = std::chrono::steady_clock;
using roda::sdk::Failure;
using roda::sdk::guarded;
constexpr std::size_t kFragmentBytes = 32 * 1024, kQueueLimit = 2048, kNameBytes = 8;
constexpr std::uint64_t kCapabilities = RODA_CAP_P2P | RODA_CAP_SAME_HOST | RODA_CAP_FAULT_TOLERANT;

struct Datagram {
  std::uint64_t from, tag, message_bytes, fragment_bytes;
  char data[kFragmentBytes];
  std::size_t length() const { return offsetof(Datagram, data) + fragment_bytes; }
};
struct Message {
  std::uint64_t tag;
  std::vector<char> data;
  bool complete;
};
struct Peer {
  sockaddr_un address{};
  std::deque<Datagram> out;
  std::deque<Message> arrived;  // the last one may still be growing
};
struct Receive {
  int peer;
  std::uint64_t tag;
  void* data;
  std::size_t bytes;
};
using Pool = roda::sdk::RequestPool<Receive>;

int check(int result, const char* what) {
  if (result < 0) throw Failure(RODA_ERR_SYSTEM, std::string(what) + ": " + std::strerror(errno));
  return result;
}

}  // namespace

struct roda_context {
  roda::sdk::Doorbell doorbell;  // rung by aborts
  int poll_fd = check(::epoll_create1(EPOLL_CLOEXEC), "epoll_create1");
  std::vector<roda_group*> groups;

  roda_context() { watch(doorbell.fd()); }
  ~roda_context() { ::close(poll_fd); }
  void watch(int fd) {
    epoll_event event{EPOLLIN, {}};
    check(::epoll_ctl(poll_fd, EPOLL_CTL_ADD, fd, &event), "epoll_ctl");
  }
};

struct roda_group {
  roda_context* const context;
  const roda_group_desc desc;
  const Clock::time_point deadline = Clock::now() + std::chrono::nanoseconds(desc.timeout_ns);
  const int fd = check(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0), "socket");
  roda::sdk::Allgather names{desc.exchange, desc.rank, desc.size, "unix.name"};
  roda::sdk::FirstCause cause;
  Pool pool;
  std::vector<Receive*> receives;
  std::vector<Peer> peers = std::vector<Peer>(static_cast<std::size_t>(desc.size));
  Datagram in;

  roda_group(roda_context* owner, const roda_group_desc& given) : context(owner), desc(given) {
    sockaddr_un address{AF_UNIX, {}};
    socklen_t length = sizeof address;
    check(::bind(fd, reinterpret_cast<sockaddr*>(&address), sizeof address.sun_family), "bind");  // picks a free name
    check(::getsockname(fd, reinterpret_cast<sockaddr*>(&address), &length), "getsockname");
    names.start(&address, kNameBytes);
    context->watch(fd);
    context->groups.push_back(this);
  }
  ~roda_group() {
    std::erase(context->groups, this);
    ::close(fd);
  }

  int32_t form() {
    cause.throw_if_set();
    if (!names.test()) {
      if (desc.timeout_ns == 0 || Clock::now() < deadline) return RODA_IN_PROGRESS;
      throw Failure(RODA_ERR_TIMEOUT,
                    "rank " + std::to_string(desc.world_ranks[names.waiting_for()]) + " did not come");
    }
    for (int i = 0; i < desc.size; ++i) std::memcpy(&peer(i, true).address, names.value(i), kNameBytes);
    return RODA_OK;
  }
  Peer& peer(int rank, bool may_be_self = false) {
    const bool exists = rank >= 0 && rank < desc.size && (rank != desc.rank || may_be_self);
    if (!exists) throw Failure(RODA_ERR_INVALID, "no peer " + std::to_string(rank) + " in group " + desc.name);
    return peers[static_cast<std::size_t>(rank)];
  }
  int32_t send(int to, std::uint64_t tag, const char* data, std::size_t bytes) {
    cause.throw_if_set();
    if (peer(to).out.size() >= kQueueLimit) return RODA_AGAIN;
    for (std::size_t done = 0, part = 0; done == 0 || done < bytes; done += part) {
      Datagram& datagram = peer(to).out.emplace_back();
      part = std::min(kFragmentBytes, bytes - done);
      datagram.from = static_cast<std::uint64_t>(desc.rank), datagram.tag = tag;
      datagram.message_bytes = bytes, datagram.fragment_bytes = part;
      std::copy(data + done, data + done + part, datagram.data);
      if (bytes == 0) break;
    }
    progress();
    return RODA_OK;
  }
  int progress() {
    int events = 0;
    for (Peer& to : peers) {
      const auto* address = reinterpret_cast<const sockaddr*>(&to.address);
      const socklen_t length = sizeof to.address.sun_family + 6;  // a zero byte and five digits
      for (; !to.out.empty(); to.out.pop_front(), ++events) {
        if (::sendto(fd, &to.out.front(), to.out.front().length(), 0, address, length) < 0 && errno == EAGAIN) break;
      }
    }
    for (ssize_t n = 0; (n = ::recv(fd, &in, sizeof in, 0)) >= 0; ++events) {
      if (n < static_cast<ssize_t>(in.length()) || in.from >= peers.size()) continue;  // a stranger's
      std::deque<Message>& arrived = peers[in.from].arrived;
      if (arrived.empty() || arrived.back().complete) arrived.push_back({in.tag, {}, false});
      std::vector<char>& data = arrived.back().data;
      data.insert(data.end(), in.data, in.data + in.fragment_bytes);
      arrived.back().complete = data.size() == in.message_bytes;
    }
    return events;
  }
  int32_t receive(const Receive& wanted) {
    std::deque<Message>& arrived = peer(wanted.peer).arrived;
    const auto found = std::find_if(arrived.begin(), arrived.end(),
                                    [&](const Message& m) { return m.tag == wanted.tag && m.complete; });
    if (found == arrived.end()) return cause.throw_if_set(), RODA_IN_PROGRESS;
    const std::vector<char> data = std::move(found->data);
    arrived.erase(found);
    if (data.size() != wanted.bytes) throw Failure(RODA_ERR_INVALID, "the message has another length");
    std::copy(data.begin(), data.end(), static_cast<char*>(wanted.data));
    return RODA_OK;
  }
};

namespace {

bool overlaps(const Receive* r, const void* base, std::size_t bytes) {
  const auto *a = static_cast<const char*>(r->data), *b = static_cast<const char*>(base);
  return a < b + bytes && b < a + r->bytes;
}
const roda_transport* table() {
  static roda_transport t{sizeof t, RODA_ABI_VERSION, "unix", "Unix datagrams (example)", RODA_PROGRESS_FD,
                          0,        kCapabilities};
  t.probe = [](const roda_host*, roda_error*) -> int32_t { return RODA_OK; };
  t.context_create = [](const roda_host*, roda_context** context, roda_error* error) {
    return guarded(error, [&] { return *context = new roda_context, RODA_OK; });
  };
  t.context_destroy = [](roda_context* context) { delete context; };
  t.context_capabilities = [](roda_context*) { return kCapabilities; };
  t.progress = [](roda_context* context) {
    int32_t events = 0;
    for (roda_group* group : context->groups) events += group->progress();
    return events;
  };
  t.event_fd = [](roda_context* context) { return context->poll_fd; };
  t.arm = [](roda_context* context) -> int32_t {
    context->doorbell.arm();
    for (const roda_group* group : context->groups) {
      // No descriptor tells when a datagram fits a peer's queue again: its user must poll until then.
      const auto waits = [](const Peer& peer) { return !peer.out.empty(); };
      if (std::any_of(group->peers.begin(), group->peers.end(), waits)) return RODA_AGAIN;
    }
    return RODA_OK;
  };
  t.group_create = [](roda_context* context, const roda_group_desc* desc, roda_group** group, roda_error* error) {
    return guarded(error, [&] { return *group = new roda_group(context, *desc), RODA_OK; });
  };
  t.group_test = [](roda_group* group, roda_error* error) { return guarded(error, [&] { return group->form(); }); };
  t.group_abort = [](roda_group* group, const roda_error* cause) {
    group->cause.set(Failure(*cause));
    group->context->doorbell.ring();
  };
  t.group_destroy = [](roda_group* group) { delete group; };
  t.send = [](roda_group* group, int32_t peer, uint64_t tag, const void* data, size_t bytes, const roda_memory*,
              roda_request** request, roda_error* error) {
    *request = nullptr;
    return guarded(error, [&] { return group->send(peer, tag, static_cast<const char*>(data), bytes); });
  };
  t.recv = [](roda_group* group, int32_t peer, uint64_t tag, void* data, size_t bytes, const roda_memory*,
              roda_request** request, roda_error* error) {
    *request = nullptr;
    return guarded(error, [&] {
      const Receive wanted{peer, tag, data, bytes};
      if (group->receive(wanted) == RODA_OK) return RODA_OK;
      *group->receives.emplace_back(group->pool.take()) = wanted;
      *request = Pool::handle(group->receives.back());
      return RODA_OK;
    });
  };
  t.request_test = [](roda_group* group, roda_request* request, roda_error* error) {
    Receive* wanted = Pool::request(request);
    const int32_t code = guarded(error, [&] { return group->receive(*wanted); });
    if (code != RODA_IN_PROGRESS) std::erase(group->receives, wanted), group->pool.give_back(wanted);
    return code;
  };
  t.quiesced = [](roda_group* group, const void* base, size_t bytes) -> int32_t {
    return std::none_of(group->receives.begin(), group->receives.end(),
                        [&](const Receive* receive) { return overlaps(receive, base, bytes); });
  };
  return &t;
}

}  // namespace

RODA_TRANSPORT_PLUGIN("unix", table());

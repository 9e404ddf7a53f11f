// An example transport: messages between the ranks of one host as Unix datagrams, which arrive reliably and in order.
//
// It shows the least that a transport must do: form groups over the exchange, match messages by (peer, tag), let its
// user sleep, and end everything when a group is aborted.
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <roda/sdk/doorbell.hpp>
#include <roda/sdk/exchange.hpp>
#include <roda/sdk/plugin.hpp>
#include <roda/sdk/transport.hpp>

#include <chrono>
#include <deque>
#include <list>

namespace {

using Clock = std::chrono::steady_clock;
using roda::sdk::check_system;
using roda::sdk::Failure;
constexpr std::size_t kPartBytes = 32 * 1024, kNameBytes = sizeof(sa_family_t) + 6;  // a zero byte and five digits

struct Header {
  std::uint64_t from, tag, bytes;  // of the whole message; a datagram holds a part of it
};
struct Message {
  std::uint64_t tag;
  std::size_t bytes;
  std::vector<char> data;
};
struct Operation {
  int peer;
  std::uint64_t tag;
  char* data;
  std::size_t bytes, sent;
  int32_t code;
};
struct Peer {
  std::deque<Operation*> sends;
  std::deque<Message> arrived;  // the last one may still be growing
};
class Group;

struct Context {
  roda::sdk::Doorbell doorbell;  // rung by aborts
  const int poll_fd = check_system(::epoll_create1(EPOLL_CLOEXEC), "epoll_create1");
  std::vector<Group*> groups;
  explicit Context(const roda_host*) { watch(doorbell.fd()); }
  ~Context() { ::close(poll_fd); }
  int progress();
  int event_fd() const { return poll_fd; }
  bool arm();
  void watch(int fd) {
    epoll_event event{EPOLLIN, {}};
    check_system(::epoll_ctl(poll_fd, EPOLL_CTL_ADD, fd, &event), "epoll_ctl");
  }
};

class Group {
 public:
  using Request = Operation;
  Group(Context& context, const roda_group_desc& desc) : context_(context), desc_(desc) {
    sockaddr_un address{AF_UNIX, {}};
    socklen_t length = sizeof address;
    check_system(::bind(fd_, reinterpret_cast<sockaddr*>(&address), sizeof(sa_family_t)), "bind");  // picks a free name
    check_system(::getsockname(fd_, reinterpret_cast<sockaddr*>(&address), &length), "getsockname");
    names_.start(&address, kNameBytes);
    context_.watch(fd_);
    context_.groups.push_back(this);
  }
  ~Group() {
    std::erase(context_.groups, this);
    ::close(fd_);
  }
  bool test() {
    cause_.throw_if_set();
    if (names_.test()) return true;
    if (desc_.timeout_ns == 0 || Clock::now() < deadline_) return false;
    const std::vector<int> missing = names_.missing();
    throw Failure(RODA_ERR_TIMEOUT, missing.empty()
                                        ? "a rank did not come"
                                        : "rank " + std::to_string(desc_.world_ranks[missing[0]]) + " did not come");
  }
  void abort(const Failure& cause) {
    cause_.set(cause);
    context_.doorbell.ring();
  }
  int32_t send(int peer, std::uint64_t tag, const void* data, std::size_t bytes, const roda_memory*,
               Request** request) {
    *request = start(peer, tag, const_cast<void*>(data), bytes);
    peers_[static_cast<std::size_t>(peer)].sends.push_back(*request);
    return progress(), RODA_OK;
  }
  int32_t receive(int peer, std::uint64_t tag, void* data, std::size_t bytes, const roda_memory*, Request** request) {
    receives_.push_back(*request = start(peer, tag, data, bytes));
    return progress(), RODA_OK;
  }
  int32_t test(Request* request) {
    if (request->code == RODA_IN_PROGRESS && !cause_.is_set()) return RODA_IN_PROGRESS;
    const Request ended = *request;
    std::erase(receives_, request);
    std::erase(peers_[static_cast<std::size_t>(ended.peer)].sends, request);
    live_.remove_if([request](const Request& other) { return &other == request; });
    if (ended.code == RODA_ERR_INVALID) throw Failure(ended.code, "the message has another length");
    if (ended.code == RODA_ERR_PEER) throw Failure(ended.code, "the peer is gone", desc_.world_ranks[ended.peer]);
    if (ended.code == RODA_IN_PROGRESS) cause_.throw_if_set();
    return RODA_OK;
  }
  bool is_quiet(const void* base, std::size_t bytes) const {
    const auto touches = [&](const Request& r) { return roda::sdk::overlaps(r.data, r.bytes, base, bytes); };
    return cause_.is_set() || std::none_of(live_.begin(), live_.end(), touches);
  }
  bool has_sends() const {
    const auto has_some = [](const Peer& peer) { return !peer.sends.empty(); };
    return !cause_.is_set() && std::any_of(peers_.begin(), peers_.end(), has_some);
  }
  int progress() {
    int events = 0;
    if (cause_.is_set()) return 0;  // from then on no memory of the user's is touched
    for (Peer& peer : peers_) {
      for (; !peer.sends.empty() && send_part(peer.sends.front()); ++events) {
        if (peer.sends.front()->code != RODA_IN_PROGRESS) peer.sends.pop_front();
      }
    }
    for (ssize_t n = 0; (n = ::recv(fd_, buffer_.data(), buffer_.size(), 0)) >= 0; ++events) {
      accept_part(static_cast<std::size_t>(n));
    }
    std::erase_if(receives_, [this](Request* request) { return match(request); });  // oldest first
    return events;
  }

 private:
  Request* start(int peer, std::uint64_t tag, void* data, std::size_t bytes) {
    cause_.throw_if_set();
    if (peer < 0 || peer >= desc_.size || peer == desc_.rank) throw Failure(RODA_ERR_INVALID, "no such peer");
    return &live_.emplace_back(Request{peer, tag, static_cast<char*>(data), bytes, 0, RODA_IN_PROGRESS});
  }
  // One datagram; false when the peer's queue is full.
  bool send_part(Request* request) {
    const std::size_t part = std::min(kPartBytes, request->bytes - request->sent);
    Header header{static_cast<std::uint64_t>(desc_.rank), request->tag, request->bytes};
    iovec parts[2] = {{&header, sizeof header}, {request->data + request->sent, part}};
    msghdr message{const_cast<char*>(names_.value(request->peer)), kNameBytes, parts, 2, nullptr, 0, 0};
    const ssize_t sent = ::sendmsg(fd_, &message, MSG_NOSIGNAL);
    if (sent < 0 && errno == EAGAIN) return false;
    if (sent < 0) request->code = RODA_ERR_PEER;
    if (sent >= 0 && (request->sent += part) == request->bytes) request->code = RODA_OK;
    return true;
  }
  void accept_part(std::size_t length) {
    Header header{};
    if (length >= sizeof header) std::memcpy(&header, buffer_.data(), sizeof header);
    if (length < sizeof header || header.from >= peers_.size()) return;  // a stranger's
    std::deque<Message>& arrived = peers_[header.from].arrived;
    const bool is_new = arrived.empty() || arrived.back().data.size() == arrived.back().bytes;
    Message& message = is_new ? arrived.emplace_back(Message{header.tag, header.bytes, {}}) : arrived.back();
    message.data.insert(message.data.end(), buffer_.data() + sizeof header, buffer_.data() + length);
  }
  bool match(Request* request) {
    std::deque<Message>& arrived = peers_[static_cast<std::size_t>(request->peer)].arrived;
    for (auto message = arrived.begin(); message != arrived.end(); ++message) {
      if (message->tag != request->tag) continue;
      if (message->data.size() < message->bytes) return false;
      request->code = message->bytes == request->bytes ? RODA_OK : RODA_ERR_INVALID;
      if (request->code == RODA_OK) std::copy(message->data.begin(), message->data.end(), request->data);
      return arrived.erase(message), true;
    }
    return false;
  }

  Context& context_;
  const roda_group_desc desc_;
  const Clock::time_point deadline_ = Clock::now() + std::chrono::nanoseconds(desc_.timeout_ns);
  const int fd_ = check_system(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0), "socket");
  roda::sdk::Allgather names_{desc_.exchange, desc_.rank, desc_.size, "unix.name"};
  roda::sdk::FirstCause cause_;
  std::vector<Peer> peers_ = std::vector<Peer>(static_cast<std::size_t>(desc_.size));
  std::deque<Request*> receives_;
  std::list<Request> live_;
  std::vector<char> buffer_ = std::vector<char>(sizeof(Header) + kPartBytes);
};

int Context::progress() {
  int events = 0;
  for (Group* group : groups) events += group->progress();
  return events;
}
bool Context::arm() {
  doorbell.arm();
  // Nobody may sleep while something is to be sent: no descriptor tells when a peer's queue has room again.
  return std::none_of(groups.begin(), groups.end(), [](const Group* group) { return group->has_sends(); });
}

constexpr std::uint64_t kCapabilities = RODA_CAP_P2P | RODA_CAP_SAME_HOST | RODA_CAP_FAULT_TOLERANT;
constexpr roda_transport kTable =
    roda::sdk::transport<Context, Group, kCapabilities>("unix", "Unix datagrams (example)", RODA_PROGRESS_FD);

}  // namespace

RODA_TRANSPORT_PLUGIN("unix", &kTable);

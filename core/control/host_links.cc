#include "core/control/host_links.h"

#include <poll.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <sstream>

#include "algorithms/topology/host_tree.h"
#include "plugins/base/invariant.h"
#include "plugins/base/local_address.h"
#include "plugins/base/log.h"
#include "plugins/base/secure_connection.h"
#include "plugins/base/socket.h"

namespace roda::control {
namespace {

using Clock = std::chrono::steady_clock;
constexpr std::uint16_t kService = 2;  // the store's is 1
constexpr std::size_t kMaxFrame = 2u << 20;
constexpr std::uint32_t kNews = static_cast<std::uint32_t>(EPOLLIN) | static_cast<std::uint32_t>(EPOLLRDHUP);
constexpr std::chrono::seconds kFarewell{1};
constexpr int kFarewellLookMs = 100;
const std::string kNoAddress = "! ";  // in place of the address: the reason why there is none

ConnectionOptions connection_options(std::chrono::milliseconds silence) {
  return {.service = kService, .max_frame = kMaxFrame, .silence = silence};
}

using Connections = std::vector<std::unique_ptr<SecureConnection>>;

// Sleeps until a connection can move on, or one comes to the listener, if there is one; and comes back now and then.
Status poll_for(Store& store, const std::string& key, int listener, const Connections& connections, Deadline deadline,
                const std::string& what) {
  RODA_RETURN_IF_ERROR(look_for_failures(store, key));
  if (Clock::now() > deadline) return Status::timeout("Timed out " + what + "; raise HOROVOD_GLOO_TIMEOUT_SECONDS");
  std::vector<pollfd> entries{{listener, POLLIN, 0}};
  for (const auto& connection : connections) {
    entries.push_back({connection->fd(), static_cast<short>(POLLIN | (connection->wants_write() ? POLLOUT : 0)), 0});
  }
  ::poll(entries.data(), entries.size(), 50);
  return {};
}

std::string address_key(const HostLinks::Endpoint& endpoint, std::int32_t leader) {
  return endpoint.key + "/links/" + std::to_string(leader);
}

std::string unreachable(std::int32_t parent, const std::string& why) {
  return "Rank " + std::to_string(parent) + ", which leads its host, can't be connected to: " + why;
}

// What a leader says of its host, to those who may not reach it.
std::string place_of_self(const HostLinks::Endpoint& endpoint) {
  return "host " + endpoint.host + " with the interfaces " + interfaces_up();
}

std::string no_way(const std::string& place, const HostLinks::Endpoint& endpoint) {
  return ". It is on" + place + ", this is " + place_of_self(endpoint) +
         ". Unless that rank has ended, name the interface that leads to the others, with --network-interfaces or "
         "HOROVOD_GLOO_IFACE, or let their connections through the firewalls";
}

}  // namespace

struct HostLinks::Link {
  std::int32_t rank = -1;  // the leader at the other end
  bool is_above = false;
  std::unique_ptr<SecureConnection> connection;
  std::deque<std::vector<std::uint8_t>> queue;  // frames that the connection did not take yet
  bool left = false;                            // it said goodbye
  bool watched_for_write = false;
};

HostLinks::HostLinks() : poll_(epoll_create1(EPOLL_CLOEXEC)), guard_(poll_.get()) {}
HostLinks::~HostLinks() = default;

Status HostLinks::add(std::int32_t rank, bool is_above, std::unique_ptr<SecureConnection> connection) {
  RODA_INVARIANT(std::ranges::none_of(links_, [&](const Link& l) { return l.rank == rank; }),
                 "a leader has one link to another");
  epoll_event event{};
  event.events = kNews;
  event.data.fd = connection->fd();
  if (epoll_ctl(poll_.get(), EPOLL_CTL_ADD, connection->fd(), &event) != 0) return Status::of_errno("epoll_ctl");
  links_.push_back({rank, is_above, std::move(connection)});
  return {};
}

Status HostLinks::listen(Store& store, std::int32_t self, const Endpoint& endpoint, UniqueFd* listener) {
  std::vector<SocketAddress> addresses;
  SocketAddress bound;
  Status status = resolve(endpoint.address, 0, &addresses);
  if (status.ok()) status = tcp::listen_on(addresses.front(), listener, &bound);
  const std::string text = status.ok()
                               ? bound.host() + " " + std::to_string(bound.port()) + " " + place_of_self(endpoint)
                               : kNoAddress + status.message();
  RODA_RETURN_IF_ERROR(store.put(address_key(endpoint, self), text));
  return status;
}

// Waits until every leader below has connected and said who it is. Strangers and garbage are dropped without harm to
// the rest.
Status HostLinks::accept_all(Store& store, const std::vector<std::int32_t>& children, std::int32_t self,
                             const Endpoint& endpoint, const UniqueFd& listener) {
  const ForkGuard listener_guard(listener.get());
  Connections strangers;
  for (std::size_t above = links_.size(); links_.size() - above < children.size();) {
    const auto missing = std::ranges::find_if(children, [&](std::int32_t child) {
      return std::ranges::none_of(links_, [child](const Link& link) { return link.rank == child; });
    });
    const Status status = poll_for(store, endpoint.key, listener.get(), strangers, endpoint.deadline,
                                   "waiting for rank " + std::to_string(*missing) +
                                       ", which leads its host, to connect to rank " + std::to_string(self));
    if (status.code() == RODA_ERR_TIMEOUT && status.rank() < 0)
      return Status(status.code(), status.message(), *missing);
    RODA_RETURN_IF_ERROR(status);
    UniqueFd fd;
    SocketAddress peer;
    RODA_RETURN_IF_ERROR(tcp::accept_one(listener.get(), &fd, &peer));
    if (fd) {
      std::unique_ptr<SecureConnection> connection;
      RODA_RETURN_IF_ERROR(SecureConnection::accept(std::move(fd), peer, endpoint.secret,
                                                    connection_options(endpoint.silence), &connection));
      strangers.push_back(std::move(connection));
    }
    RODA_RETURN_IF_ERROR(identify(&strangers, children));
  }
  return {};
}

Status HostLinks::identify(std::vector<std::unique_ptr<SecureConnection>>* strangers,
                           const std::vector<std::int32_t>& children) {
  for (auto& c : *strangers) {
    bool ready = false;
    Status status = c->test(&ready);
    std::vector<std::uint8_t> frame;
    bool received = false;
    if (status.ok() && ready) status = c->receive_frame(&frame, &received);
    if (!status.ok()) {
      RODA_LOG(warning, "refused a connection to the control plane: {}", status.message());
      c.reset();
      continue;
    }
    if (!received) continue;
    std::int32_t rank = -1;
    if (frame.size() == 1 + sizeof rank && frame[0] == static_cast<std::uint8_t>(Frame::kHello)) {
      std::memcpy(&rank, frame.data() + 1, sizeof rank);
    }
    const bool known = std::ranges::any_of(links_, [&](const Link& l) { return l.rank == rank; });
    if (known || std::ranges::find(children, rank) == children.end()) {
      return Status::precondition("Rank " + std::to_string(rank) + " at " + c->peer() +
                                  " was started twice, or is no leader of a host below this one");
    }
    RODA_RETURN_IF_ERROR(add(rank, false, std::move(c)));
  }
  std::erase(*strangers, nullptr);
  return {};
}

Status HostLinks::connect_to(Store& store, std::int32_t parent, std::int32_t self, const Endpoint& endpoint) {
  RODA_INVARIANT(links_.empty(), "the link to the leader above is the first");
  std::string text;
  RODA_RETURN_IF_ERROR(store.wait(address_key(endpoint, parent), endpoint.deadline, &text));
  if (text.starts_with(kNoAddress)) return Status::unavailable(unreachable(parent, text.substr(kNoAddress.size())));
  std::istringstream words(text);
  std::string host, rest;
  int port = 0;
  if (!(words >> host >> port && std::getline(words, rest))) {
    return Status::unknown("malformed address of the control plane: " + text);
  }
  std::vector<SocketAddress> addresses;
  RODA_RETURN_IF_ERROR(resolve(host, port, &addresses));
  Connections made(1);
  std::unique_ptr<SecureConnection>& connection = made.front();
  Status status =
      SecureConnection::connect(addresses, endpoint.secret, connection_options(endpoint.silence), &connection);
  for (bool ready = false; status.ok() && !ready;) {
    status = connection->test(&ready);
    if (!status.ok() || ready) break;
    RODA_RETURN_IF_ERROR(
        poll_for(store, endpoint.key, -1, made, endpoint.deadline, "connecting to the control plane at " + host));
  }
  if (!status.ok()) {
    const bool is_way = status.code() != RODA_ERR_AUTH;
    return Status::peer(parent, unreachable(parent, status.message() + (is_way ? no_way(rest, endpoint) : "")));
  }
  RODA_RETURN_IF_ERROR(add(parent, true, std::move(connection)));
  queue_frame(links_[0], Frame::kHello, std::as_bytes(std::span(&self, 1)));
  const Status flushed = flush(links_[0]);
  return flushed.ok() ? flushed : Status::peer(parent, unreachable(parent, flushed.message()));
}

void HostLinks::queue_frame(Link& link, Frame kind, std::span<const std::byte> payload) {
  std::vector<std::uint8_t> frame(1 + payload.size());
  frame[0] = static_cast<std::uint8_t>(kind);
  if (!payload.empty()) std::memcpy(frame.data() + 1, payload.data(), payload.size());
  link.queue.push_back(std::move(frame));
}

HostLinks::Traffic HostLinks::traffic() const {
  return {static_cast<std::uint32_t>(links_.size()), sent_.load(std::memory_order_relaxed),
          received_.load(std::memory_order_relaxed), bytes_.load(std::memory_order_relaxed)};
}

void HostLinks::count(std::atomic<std::uint64_t>* records, std::size_t bytes) {
  records->fetch_add(1, std::memory_order_relaxed);
  bytes_.fetch_add(bytes, std::memory_order_relaxed);
}

void HostLinks::queue_record(Link& link, std::span<const std::byte> record) {
  RODA_INVARIANT(record.size() < kMaxFrame, "a record fits into a frame");
  queue_frame(link, Frame::kRecord, record);
  count(&sent_, record.size());
}

Status HostLinks::flush(Link& link) {
  if (link.left) return {};
  for (bool accepted = true; accepted && !link.queue.empty();) {
    RODA_RETURN_IF_ERROR(link.connection->send_frame(link.queue.front(), &accepted));
    if (accepted) link.queue.pop_front();
  }
  RODA_RETURN_IF_ERROR(link.connection->flush());
  const bool wants = link.connection->wants_write() || !link.queue.empty();
  if (wants == link.watched_for_write) return {};
  link.watched_for_write = wants;
  epoll_event event{};
  event.events = kNews | (wants ? static_cast<std::uint32_t>(EPOLLOUT) : 0u);
  event.data.fd = link.connection->fd();
  epoll_ctl(poll_.get(), EPOLL_CTL_MOD, link.connection->fd(), &event);
  // Room that came before this rings no bell.
  return wants ? flush(link) : Status();
}

Status HostLinks::take_frame(Link& link, const std::vector<std::uint8_t>& frame, Status* abort) {
  if (frame.empty()) return Status::unknown("an empty control frame");
  RODA_INVARIANT(!link.left, "no frame is taken behind a goodbye");
  const auto payload = std::as_bytes(std::span(frame)).subspan(1);
  switch (static_cast<Frame>(frame[0])) {
    case Frame::kRecord:
      count(&received_, payload.size());
      arrived_.push_back({{payload.begin(), payload.end()}, link.is_above});
      return {};
    case Frame::kGoodbye:
      link.left = true;
      epoll_ctl(poll_.get(), EPOLL_CTL_DEL, link.connection->fd(), nullptr);
      return {};
    case Frame::kAbort: {
      std::int32_t head[2];
      if (payload.size() < sizeof head) return Status::unknown("a cut abort frame");
      std::memcpy(head, payload.data(), sizeof head);
      const auto text = payload.subspan(sizeof head);
      *abort = Status(head[0], std::string(reinterpret_cast<const char*>(text.data()), text.size()), head[1]);
      return {};
    }
    case Frame::kHello:
      break;
  }
  return Status::unknown("an unknown control frame");
}

Status HostLinks::move(Link& link, Status* abort) {
  if (link.left) return {};
  RODA_RETURN_IF_ERROR(flush(link));
  std::vector<std::uint8_t> frame;
  for (bool received = true; received && !link.left;) {
    RODA_RETURN_IF_ERROR(link.connection->receive_frame(&frame, &received));
    if (received) RODA_RETURN_IF_ERROR(take_frame(link, frame, abort));
  }
  return {};
}

Status HostLinks::service(Status* abort) {
  Status first;
  for (Link& link : links_) {
    const Status status = move(link, abort);
    if (status.ok() || !abort->ok() || !first.ok()) continue;
    first = Status::peer(
        link.rank, "The link to the host of rank " + std::to_string(link.rank) + " (" + link.connection->peer() +
                       ") broke: " + status.message() +
                       ". Its process ended or became another program, or its machine or the network in between is "
                       "down.");
  }
  return first;
}

bool HostLinks::receive(std::vector<std::byte>* record, bool* from_above) {
  if (arrived_.empty()) return false;
  RODA_INVARIANT(arrived_.size() <= received_.load(std::memory_order_relaxed), "what waits to be received has arrived");
  *record = std::move(arrived_.front().record);
  *from_above = arrived_.front().from_above;
  arrived_.pop_front();
  return true;
}

void HostLinks::send_up(std::span<const std::byte> record) {
  for (Link& link : links_) {
    if (link.is_above) queue_record(link, record);
  }
}

void HostLinks::send_down(std::span<const std::byte> record) {
  for (Link& link : links_) {
    if (!link.is_above) queue_record(link, record);
  }
}

void HostLinks::send_abort(const Status& cause) {
  RODA_INVARIANT(!cause.ok(), "a job that is aborted has a cause");
  const std::int32_t head[2] = {cause.code(), cause.rank()};
  std::vector<std::byte> payload(sizeof head + cause.message().size());
  std::memcpy(payload.data(), head, sizeof head);
  std::memcpy(payload.data() + sizeof head, cause.message().data(), cause.message().size());
  for (Link& link : links_) queue_frame(link, Frame::kAbort, payload);
}

bool HostLinks::unsent() const {
  return std::ranges::any_of(links_, [](const Link& l) { return !l.left && !l.queue.empty(); });
}

// What was said last, the cause of an abort perhaps, may find a full buffer, and nobody drives the links any more. The
// others' words are taken meanwhile, since they may wait for room as well.
void HostLinks::depart() {
  for (Link& link : links_) queue_frame(link, Frame::kGoodbye, {});
  const auto deadline = Clock::now() + kFarewell;
  std::vector<pollfd> waiting;
  do {
    if (!waiting.empty()) ::poll(waiting.data(), waiting.size(), kFarewellLookMs);
    waiting.clear();
    for (Link& link : links_) {
      Status ignored;
      if (link.left || !move(link, &ignored).ok()) continue;
      if (link.watched_for_write) {
        waiting.push_back({link.connection->fd(), POLLIN | POLLOUT, 0});
      } else {
        ::shutdown(link.connection->fd(), SHUT_WR);  // an end of the bytes is seen there without reading them
      }
    }
  } while (!waiting.empty() && Clock::now() < deadline);
}

bool HostLinks::has_hung_up() const {
  std::vector<epoll_event> events(links_.size());
  const int n = epoll_wait(poll_.get(), events.data(), static_cast<int>(events.size()), 0);
  return std::any_of(events.begin(), events.begin() + std::max(n, 0), [](const epoll_event& event) {
    return (event.events & static_cast<std::uint32_t>(EPOLLRDHUP | EPOLLHUP | EPOLLERR)) != 0;
  });
}

Status HostLinks::form(Store& store, const std::vector<std::int32_t>& leaders, std::int32_t self,
                       const Endpoint& endpoint, std::unique_ptr<HostLinks>* out) {
  const auto leader = [&](int host) { return leaders[static_cast<std::size_t>(host)]; };
  const auto host = static_cast<int>(std::ranges::find(leaders, self) - leaders.begin());
  const topology::HostPlace place = topology::place_of(host, static_cast<int>(leaders.size()), endpoint.fan_out);
  std::vector<std::int32_t> children;
  for (const int child : place.children) children.push_back(leader(child));
  std::unique_ptr<HostLinks> links(new HostLinks);
  if (place.parent >= 0) RODA_RETURN_IF_ERROR(links->connect_to(store, leader(place.parent), self, endpoint));
  if (!children.empty()) {
    UniqueFd listener;
    RODA_RETURN_IF_ERROR(links->listen(store, self, endpoint, &listener));
    RODA_RETURN_IF_ERROR(links->accept_all(store, children, self, endpoint, listener));
  }
  *out = std::move(links);
  return {};
}

}  // namespace roda::control

#include "core/bootstrap/store_server.h"

#include <sys/epoll.h>
#include <sys/eventfd.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <cerrno>
#include <cstring>
#include <map>
#include <set>
#include <unordered_map>
#include <vector>

#include "core/bootstrap/store_handler.h"
#include "core/bootstrap/store_wire.h"
#include "plugins/base/format.h"
#include "plugins/base/helper_thread.h"
#include "plugins/base/log.h"
#include "plugins/base/mutex.h"
#include "plugins/base/secure_connection.h"
#include "plugins/base/socket.h"

namespace roda {
namespace {

constexpr std::uint64_t kListener = 0;
constexpr std::uint64_t kOrders = 1;
constexpr std::chrono::milliseconds kAcceptPause{100};  // of accepting, after running out of descriptors

}  // namespace

// All state belongs to the server's thread.
class StoreServer::Loop {
 public:
  Loop(const Secret& secret, const StoreServerOptions& options)
      : secret_(secret),
        options_(options),
        handler_(options.max_bytes,
                 [this](std::uint64_t id, const store_wire::Response& response) { answer(id, response); }) {
    connection_options_ = {.service = store_wire::kService,
                           .max_frame = store_wire::kMaxFrame,
                           .max_queued = options.max_queued,
                           .handshake_timeout = options.handshake_timeout};
  }

  Status open(UniqueFd listener) {
    wake_.reset(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    if (!wake_) return Status::of_errno("eventfd");
    listener_ = std::move(listener);
    listener_guard_ = ForkGuard(listener_.get());
    epoll_.reset(::epoll_create1(EPOLL_CLOEXEC));
    if (!epoll_) return Status::of_errno("epoll_create1");
    epoll_guard_ = ForkGuard(epoll_.get());
    if (!watch(EPOLL_CTL_ADD, listener_.get(), kListener, EPOLLIN) ||
        !watch(EPOLL_CTL_ADD, wake_.get(), kOrders, EPOLLIN)) {
      return Status::of_errno("epoll_ctl");
    }
    return {};
  }

  void run() {
    epoll_event events[64];
    while (true) {
      int count = ::epoll_wait(epoll_.get(), events, 64, timeout_ms());
      if (count < 0 && errno != EINTR) {
        RODA_LOG(error, "rendezvous ends: epoll_wait: {}", std::strerror(errno));
        return;
      }
      for (int i = 0; i < count; ++i) {
        std::uint64_t id = events[i].data.u64;
        if (id == kOrders) {
          if (carry_out_orders()) continue;
          RODA_LOG(debug, "rendezvous ends after {} requests", traffic().requests);
          return;
        }
        if (id == kListener) {
          accept_all();
        } else {
          serve(id);
        }
      }
      drop_late_strangers();
      drop_doomed();
      accept_again();
    }
  }

  Traffic traffic() const {
    return {clients_served_.load(std::memory_order_relaxed), requests_.load(std::memory_order_relaxed),
            answers_.load(std::memory_order_relaxed), values_.load(std::memory_order_relaxed),
            bytes_.load(std::memory_order_relaxed)};
  }

  // Any thread.
  void ask_to_stop() {
    {
      const MutexLock lock(orders_mutex_);
      is_to_stop_ = true;
    }
    ::eventfd_write(wake_.get(), 1);
  }
  void ask_to_retire(const std::string& scope, const Status& reason) {
    {
      const MutexLock lock(orders_mutex_);
      to_retire_.emplace_back(scope, store_wire::text_of(reason));
    }
    ::eventfd_write(wake_.get(), 1);
  }

 private:
  struct Client {
    std::unique_ptr<SecureConnection> connection;
    std::uint32_t interest = 0;  // epoll events asked for
  };
  using Clients = std::unordered_map<std::uint64_t, Client>;

  bool watch(int operation, int fd, std::uint64_t id, std::uint32_t events) {
    epoll_event event{};
    event.events = events;
    event.data.u64 = id;
    return ::epoll_ctl(epoll_.get(), operation, fd, &event) == 0;
  }

  int timeout_ms() const {
    if (!accepting_) return static_cast<int>(kAcceptPause.count());
    if (strangers_.empty()) return -1;
    auto deadline = clients_.at(*strangers_.begin()).connection->handshake_deadline();
    auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - SecureConnection::Clock::now());
    return static_cast<int>(std::clamp<std::int64_t>(left.count(), 0, 60'000));
  }

  // False: the server is to end.
  bool carry_out_orders() {
    eventfd_t ignored = 0;
    ::eventfd_read(wake_.get(), &ignored);
    std::vector<std::pair<std::string, std::string>> scopes;
    {
      const MutexLock lock(orders_mutex_);
      scopes.swap(to_retire_);
      if (is_to_stop_) return false;
    }
    for (const auto& [scope, reason] : scopes) handler_.retire(scope, reason);
    return true;
  }

  void accept_all() {
    while (accepting_) {
      UniqueFd fd;
      SocketAddress peer;
      Status status = tcp::accept_one(listener_.get(), &fd, &peer);
      if (!status.ok()) return make_room_for_accept(status);
      if (!fd) return;
      Client client;
      int raw = fd.get();
      status = SecureConnection::accept(std::move(fd), peer, secret_, connection_options_, &client.connection);
      std::uint64_t id = next_id_++;
      client.interest = EPOLLIN;
      if (!status.ok() || !watch(EPOLL_CTL_ADD, raw, id, client.interest)) {
        RODA_LOG(warning, "rendezvous could not take {}: {}", peer.text(), status.message());
        continue;
      }
      clients_.emplace(id, std::move(client));
      strangers_.insert(id);
      if (strangers_.size() > options_.max_strangers) {
        drop(*strangers_.begin(), Status::auth("it proved nothing while others were waiting"));
      }
    }
  }

  // Out of descriptors: the oldest stranger goes, or nobody is accepted for a moment.
  void make_room_for_accept(const Status& cause) {
    RODA_LOG(warning, "rendezvous can take no more connections: {}", cause.message());
    if (!strangers_.empty()) {
      drop(*strangers_.begin(), Status::auth("it proved nothing while others were waiting"));
    } else if (watch(EPOLL_CTL_MOD, listener_.get(), kListener, 0)) {
      accepting_ = false;
      accept_again_at_ = SecureConnection::Clock::now() + kAcceptPause;
    }
  }

  void accept_again() {
    if (accepting_ || SecureConnection::Clock::now() < accept_again_at_) return;
    accepting_ = watch(EPOLL_CTL_MOD, listener_.get(), kListener, EPOLLIN);
  }

  void serve(std::uint64_t id) {
    auto at = clients_.find(id);
    if (at == clients_.end() || doomed_.contains(id)) return;
    Status status = serve_client(id, at->second);
    if (!status.ok()) drop(id, status);
  }

  Status serve_client(std::uint64_t id, Client& client) {
    SecureConnection& connection = *client.connection;
    if (!connection.ready()) {
      bool ready = false;
      RODA_RETURN_IF_ERROR(connection.test(&ready));
    }
    if (connection.ready()) {
      clients_served_.fetch_add(strangers_.erase(id), std::memory_order_relaxed);
      RODA_RETURN_IF_ERROR(connection.flush());
      std::vector<std::uint8_t> frame;
      bool received = true;
      while (!doomed_.contains(id)) {
        RODA_RETURN_IF_ERROR(connection.receive_frame(&frame, &received));
        if (!received) break;
        auto request = store_wire::parse_request(frame);
        if (!request) return Status::invalid("it sent a malformed request");
        count(*request, frame.size());
        RODA_RETURN_IF_ERROR(handler_.handle(id, *request));
      }
    }
    std::uint32_t wanted = EPOLLIN | (connection.wants_write() ? EPOLLOUT : 0u);
    if (wanted != client.interest && watch(EPOLL_CTL_MOD, connection.fd(), id, wanted)) client.interest = wanted;
    return {};
  }

  void count(const store_wire::Request& request, std::size_t bytes) {
    using store_wire::Op;
    const bool is_value = request.op == Op::kPut || request.op == Op::kPutIfAbsent || request.op == Op::kGive;
    requests_.fetch_add(1, std::memory_order_relaxed);
    values_.fetch_add(is_value ? 1 : 0, std::memory_order_relaxed);
    bytes_.fetch_add(bytes, std::memory_order_relaxed);
  }

  // May doom the receiver, but drops nobody: callers hold references.
  void answer(std::uint64_t id, const store_wire::Response& response) {
    auto at = clients_.find(id);
    if (at == clients_.end() || doomed_.contains(id)) return;
    Client& client = at->second;
    bool accepted = false;
    const std::vector<std::uint8_t> frame = store_wire::encode(response);
    answers_.fetch_add(1, std::memory_order_relaxed);
    bytes_.fetch_add(frame.size(), std::memory_order_relaxed);
    Status status = client.connection->send_frame(frame, &accepted);
    if (status.ok() && !accepted) status = Status::peer(-1, "it does not read its answers");
    if (!status.ok()) {
      doomed_.emplace(id, status);
    } else if (client.connection->wants_write() && (client.interest & EPOLLOUT) == 0) {
      if (watch(EPOLL_CTL_MOD, client.connection->fd(), id, EPOLLIN | EPOLLOUT)) client.interest = EPOLLIN | EPOLLOUT;
    }
  }

  void drop(std::uint64_t id, const Status& why) {
    auto at = clients_.find(id);
    const std::string& peer = at->second.connection->peer();
    if (strangers_.erase(id) == 0) {
      RODA_LOG(debug, "rendezvous: {} left: {}", peer, why.message());
      handler_.gone(id);
    } else if (++refused_ <= 100 || std::has_single_bit(refused_)) {  // a flood must not fill the log
      RODA_LOG(warning, "rendezvous refused {}, the {}. so far: {}", peer, refused_, why.message());
    }
    clients_.erase(at);
  }

  void drop_late_strangers() {
    while (!strangers_.empty()) {
      std::uint64_t id = *strangers_.begin();
      SecureConnection& connection = *clients_.at(id).connection;
      if (connection.handshake_deadline() > SecureConnection::Clock::now()) return;
      bool ready = false;
      Status status = connection.test(&ready);
      if (!status.ok()) {
        drop(id, status);
      } else {
        serve(id);
      }
    }
  }

  void drop_doomed() {
    for (const auto& [id, why] : std::exchange(doomed_, {})) {
      if (clients_.contains(id)) drop(id, why);
    }
  }

  Secret secret_;
  StoreServerOptions options_;
  ConnectionOptions connection_options_;
  StoreHandler handler_;
  UniqueFd listener_;
  ForkGuard listener_guard_;
  UniqueFd epoll_;
  ForkGuard epoll_guard_;
  bool accepting_ = true;
  SecureConnection::Clock::time_point accept_again_at_;
  Clients clients_;
  std::set<std::uint64_t> strangers_;       // ids grow, so the first is the oldest
  std::map<std::uint64_t, Status> doomed_;  // to be dropped once nothing refers to them
  std::uint64_t next_id_ = kOrders + 1;
  std::uint64_t refused_ = 0;
  std::atomic<std::uint64_t> clients_served_{0}, requests_{0}, answers_{0}, values_{0}, bytes_{0};

  UniqueFd wake_;
  Mutex orders_mutex_;
  bool is_to_stop_ RODA_GUARDED_BY(orders_mutex_) = false;
  std::vector<std::pair<std::string, std::string>> to_retire_ RODA_GUARDED_BY(orders_mutex_);
};

Status StoreServer::start(const SocketAddress& address, const Secret& secret, const StoreServerOptions& options,
                          std::unique_ptr<StoreServer>* server) {
  if (!secret.is_long_enough()) {
    return Status::invalid(roda::format("the job's secret needs {} to {} bytes", Secret::kMinBytes, Secret::kMaxBytes));
  }
  UniqueFd listener;
  SocketAddress bound;
  RODA_RETURN_IF_ERROR(tcp::listen_on(address, &listener, &bound));
  auto loop = std::make_unique<Loop>(secret, options);
  RODA_RETURN_IF_ERROR(loop->open(std::move(listener)));
  server->reset(new StoreServer(bound, std::move(loop)));
  return {};
}

StoreServer::StoreServer(const SocketAddress& address, std::unique_ptr<Loop> loop)
    : address_(address), loop_(std::move(loop)) {
  thread_ = start_thread("roda-store", [this] { loop_->run(); });
}

StoreServer::~StoreServer() { stop(); }

StoreServer::Traffic StoreServer::traffic() const { return loop_ != nullptr ? loop_->traffic() : Traffic(); }

void StoreServer::retire(const std::string& scope, const Status& reason) {
  if (loop_ != nullptr) loop_->ask_to_retire(scope, reason);
}

void StoreServer::stop() {
  if (!thread_.joinable()) return;
  loop_->ask_to_stop();
  thread_.join();
  loop_.reset();
}

}  // namespace roda

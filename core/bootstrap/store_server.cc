#include "core/bootstrap/store_server.h"

#include <pthread.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <iterator>
#include <map>
#include <set>
#include <unordered_map>
#include <vector>

#include "core/bootstrap/store_table.h"
#include "core/bootstrap/store_wire.h"
#include "plugins/base/format.h"
#include "plugins/base/log.h"
#include "plugins/base/mutex.h"
#include "plugins/base/secure_connection.h"
#include "plugins/base/socket.h"

namespace roda {

namespace {

using store_wire::Op;
using store_wire::Outcome;

constexpr std::uint64_t kListener = 0;
constexpr std::uint64_t kOrders = 1;
constexpr std::chrono::milliseconds kPause{100};  // of accepting, after running out of descriptors

// Takes the number that the text begins with, and the space behind it; -1: it begins with none.
std::int64_t take_number(std::string_view* text) {
  std::int64_t number = -1;
  const auto [end, error] = std::from_chars(text->data(), text->data() + text->size(), number);
  if (error != std::errc() || number < 0 || number > INT32_MAX) return -1;
  text->remove_prefix(std::min(text->size(), static_cast<std::size_t>(end - text->data()) + 1));
  return number;
}

}  // namespace

// All state belongs to the server's thread.
class StoreServer::Loop {
 public:
  Loop(const Secret& secret, const StoreServerOptions& options)
      : secret_(secret), options_(options), table_(options.max_bytes) {
    connection_options_.service = store_wire::kService;
    connection_options_.max_frame = store_wire::kMaxFrame;
    connection_options_.max_queued = options.max_queued;
    connection_options_.handshake_timeout = options.handshake_timeout;
  }

  Status open(UniqueFd listener) {
    wake_.reset(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    if (!wake_) return Status::system(roda::format("eventfd: {}", std::strerror(errno)));
    listener_ = std::move(listener);
    listener_guard_ = ForkGuard(listener_.get());
    epoll_.reset(::epoll_create1(EPOLL_CLOEXEC));
    if (!epoll_) return Status::system(roda::format("epoll_create1: {}", std::strerror(errno)));
    epoll_guard_ = ForkGuard(epoll_.get());
    if (!watch(EPOLL_CTL_ADD, listener_.get(), kListener, EPOLLIN) ||
        !watch(EPOLL_CTL_ADD, wake_.get(), kOrders, EPOLLIN)) {
      return Status::system(roda::format("epoll_ctl: {}", std::strerror(errno)));
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
          RODA_LOG(debug, "rendezvous ends after {} requests", requests());
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

  std::uint64_t requests() const { return requests_.load(std::memory_order_relaxed); }

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
    std::uint32_t interest = 0;            // epoll events asked for
    std::map<std::string, int> entered{};  // scope -> as which rank
  };
  using Clients = std::unordered_map<std::uint64_t, Client>;

  bool watch(int operation, int fd, std::uint64_t id, std::uint32_t events) {
    epoll_event event{};
    event.events = events;
    event.data.u64 = id;
    return ::epoll_ctl(epoll_.get(), operation, fd, &event) == 0;
  }

  int timeout_ms() const {
    if (!accepting_) return static_cast<int>(kPause.count());
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
    for (const auto& [scope, reason] : scopes) {
      const std::string prefix = scope + "/";
      fail(scope, reason);
      retired_.insert(prefix);
      table_.remove(prefix);
    }
    return true;
  }

  bool is_retired(std::string_view key) const {
    const auto after = retired_.upper_bound(key);
    return after != retired_.begin() && key.starts_with(*std::prev(after));
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
      accept_again_at_ = SecureConnection::Clock::now() + kPause;
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
      strangers_.erase(id);
      RODA_RETURN_IF_ERROR(connection.flush());
      std::vector<std::uint8_t> frame;
      bool received = true;
      while (!doomed_.contains(id)) {
        RODA_RETURN_IF_ERROR(connection.receive_frame(&frame, &received));
        if (!received) break;
        auto request = store_wire::parse_request(frame);
        if (!request) return Status::invalid("it sent a malformed request");
        RODA_RETURN_IF_ERROR(handle(id, *request));
      }
    }
    std::uint32_t wanted = EPOLLIN | (connection.wants_write() ? EPOLLOUT : 0u);
    if (wanted != client.interest && watch(EPOLL_CTL_MOD, connection.fd(), id, wanted)) client.interest = wanted;
    return {};
  }

  Status handle(std::uint64_t id, const store_wire::Request& request) {
    requests_.fetch_add(1, std::memory_order_relaxed);
    std::string_view rest = request.value;
    int number = 0;
    std::size_t offset = 0;
    if (request.op == Op::kEnter || request.op >= Op::kTake) {
      number = static_cast<int>(take_number(&rest));
      if (request.op == Op::kTakeAll) offset = static_cast<std::size_t>(take_number(&rest));
      if (number < 0 || offset > INT32_MAX) return Status::invalid("it sent a request without its number");
    }
    if (is_retired(request.key)) {
      refuse(id, request);
      return {};
    }
    Status status;
    switch (request.op) {
      case Op::kPutIfAbsent:
        if (table_.holds(request.key)) break;
        [[fallthrough]];
      case Op::kPut:
        status = put(request);
        break;
      case Op::kGive:
        status = give(request);
        break;
      case Op::kGet:
      case Op::kTake:
      case Op::kTakeAll:
        status = find({id, request.id}, request, number, offset);
        break;
      case Op::kMissing:
        answer(id, {request.id, Outcome::kValue, std::to_string(table_.first_missing(request.key, number))});
        break;
      case Op::kEnter:
        clients_.at(id).entered[std::string(request.key)] = number;
        break;
      case Op::kLeave:
        leave(id, request);
        break;
    }
    if (!status.ok()) answer(id, {request.id, Outcome::kError, status.message()});
    return {};
  }

  void refuse(std::uint64_t id, const store_wire::Request& request) {
    if (request.op == Op::kMissing) return answer(id, {request.id, Outcome::kValue, "-1"});
    if (request.op != Op::kGet && request.op != Op::kTake && request.op != Op::kTakeAll) return;
    const std::string& scope = *std::prev(retired_.upper_bound(request.key));
    answer(id, {request.id, Outcome::kFailed, failures_.at(scope)});
  }

  Status put(const store_wire::Request& request) {
    std::vector<StoreTable::Waiter> woken;
    RODA_RETURN_IF_ERROR(table_.put(request.key, request.value, &woken));
    answer_all(woken, Outcome::kValue, request.value);
    return {};
  }

  Status give(const store_wire::Request& request) {
    std::vector<StoreTable::Waiter> woken, complete;
    RODA_RETURN_IF_ERROR(table_.give(request.key, static_cast<int>(request.id), request.value, &woken, &complete));
    answer_all(woken, Outcome::kValue, request.value);
    for (const auto& waiter : complete) {
      if (const std::string* text = table_.text(request.key)) hand_out(waiter, request.key, *text, 0);
    }
    return {};
  }

  // What is there is handed out, even after somebody has failed.
  Status find(StoreTable::Waiter waiter, const store_wire::Request& request, int number, std::size_t offset) {
    const std::string* found = nullptr;
    switch (request.op) {
      case Op::kTake:
        RODA_RETURN_IF_ERROR(table_.take(request.key, number, waiter, &found));
        break;
      case Op::kTakeAll:
        RODA_RETURN_IF_ERROR(table_.take_all(request.key, number, waiter, &found));
        if (found == nullptr) break;
        hand_out(waiter, request.key, *found, offset);
        return {};
      default:
        RODA_RETURN_IF_ERROR(table_.get(request.key, waiter, &found));
    }
    if (found != nullptr) {
      answer(waiter.connection, {waiter.id, Outcome::kValue, *found});
    } else {
      tell_failures(request.key);
    }
    return {};
  }

  // As much of a gathering's text as a frame takes.
  void hand_out(StoreTable::Waiter waiter, std::string_view key, std::string_view text, std::size_t offset) {
    const std::string_view piece = text.substr(std::min(offset, text.size()), Store::kMaxValue);
    answer(waiter.connection, {waiter.id, Outcome::kValue, piece});
    if (offset + piece.size() == text.size()) table_.handed_out(key);
  }

  // To those who wait for something there.
  void tell_failures(std::string_view key) {
    for (const auto& [scope, failure] : failures_) {
      if (key.starts_with(scope)) answer_all(table_.take_waiters(scope), Outcome::kFailed, failure);
    }
  }

  void leave(std::uint64_t id, const store_wire::Request& request) {
    const std::string scope(request.key);
    clients_.at(id).entered.erase(scope);
    if (!request.value.empty()) fail(scope, std::string(request.value));
  }

  void fail(const std::string& scope, const std::string& failure) {
    const auto [at, is_first] = failures_.emplace(scope + "/", failure);
    if (is_first) tell_failures(at->first);
  }

  void answer_all(const std::vector<StoreTable::Waiter>& waiters, Outcome outcome, std::string_view value) {
    for (const auto& waiter : waiters) answer(waiter.connection, {waiter.id, outcome, value});
  }

  // May doom the receiver, but drops nobody: callers hold references.
  void answer(std::uint64_t id, const store_wire::Response& response) {
    auto at = clients_.find(id);
    if (at == clients_.end() || doomed_.contains(id)) return;
    Client& client = at->second;
    bool accepted = false;
    Status status = client.connection->send_frame(store_wire::encode(response), &accepted);
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
      table_.forget_waiters(id);
      for (const auto& [scope, rank] : std::exchange(at->second.entered, {})) {
        fail(scope, store_wire::text_of(Status::peer(
                        rank, roda::format("Rank {} died while the job was starting: its connection to the rendezvous "
                                           "ended. Look at its output for the cause.",
                                           rank))));
      }
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
  StoreTable table_;
  UniqueFd listener_;
  ForkGuard listener_guard_;
  UniqueFd epoll_;
  ForkGuard epoll_guard_;
  bool accepting_ = true;
  SecureConnection::Clock::time_point accept_again_at_;
  Clients clients_;
  std::set<std::uint64_t> strangers_;            // ids grow, so the first is the oldest
  std::map<std::uint64_t, Status> doomed_;       // to be dropped once nothing refers to them
  std::map<std::string, std::string> failures_;  // by scope with its slash: the first failure there, as it is answered
  std::set<std::string, std::less<>> retired_;   // scopes with their slashes; each has its failure
  std::uint64_t next_id_ = kOrders + 1;
  std::uint64_t refused_ = 0;
  std::atomic<std::uint64_t> requests_{0};

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
  // Signals belong to the threads of the program that runs the server.
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  thread_ = std::thread([this] { loop_->run(); });
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

StoreServer::~StoreServer() { stop(); }

std::uint64_t StoreServer::requests() const { return loop_ != nullptr ? loop_->requests() : 0; }

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

#include "core/bootstrap/tcp_store.h"

#include <poll.h>

#include <algorithm>

#include "core/bootstrap/store_wire.h"
#include "plugins/base/format.h"

namespace roda {

namespace {

// Sleeps until the connection can move on, the deadline at the latest.
void sleep_on(int fd, bool for_writing, Store::Clock::time_point deadline) {
  auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - Store::Clock::now());
  pollfd entry{fd, static_cast<short>(for_writing ? POLLIN | POLLOUT : POLLIN), 0};
  ::poll(&entry, 1, static_cast<int>(std::clamp<std::int64_t>(left.count(), 0, 1000)));
}

}  // namespace

TcpStore::TcpStore(std::unique_ptr<SecureConnection> connection, std::chrono::milliseconds timeout)
    : timeout_(timeout), connection_(std::move(connection)) {}

Status TcpStore::connect(const std::string& host, int port, const Secret& secret, std::chrono::milliseconds timeout,
                         std::unique_ptr<Store>* store) {
  std::vector<SocketAddress> addresses;
  RODA_RETURN_IF_ERROR(resolve(host, port, &addresses));
  ConnectionOptions options;
  options.service = store_wire::kService;
  options.max_frame = store_wire::kMaxFrame;
  options.handshake_timeout = timeout;
  std::unique_ptr<SecureConnection> connection;
  Status status = SecureConnection::connect(std::move(addresses), secret, options, &connection);
  bool ready = false;
  while (status.ok() && !ready) {
    status = connection->test(&ready);
    if (status.ok() && !ready) sleep_on(connection->fd(), connection->wants_write(), connection->handshake_deadline());
  }
  if (!status.ok()) {
    return Status(status.code(),
                  roda::format("cannot reach the rendezvous at {}:{}: {}", host, port, status.message()));
  }
  store->reset(new TcpStore(std::move(connection), timeout));
  return {};
}

Status TcpStore::lost(const Status& cause) {
  if (failure_.ok()) {
    failure_ = Status(cause.code(), roda::format("lost the rendezvous: {}", cause.message()));
    arrived_.notify_all();
  }
  return failure_;
}

Status TcpStore::send(std::uint8_t op, const std::string& key, std::string_view value, std::uint32_t id) {
  RODA_RETURN_IF_ERROR(check_sizes(key, value));
  if (!failure_.ok()) return failure_;
  auto frame = store_wire::encode(store_wire::Request{static_cast<store_wire::Op>(op), id, key, value});
  Clock::time_point deadline = Clock::now() + timeout_;
  bool accepted = false;
  while (!accepted || connection_->wants_write()) {
    Status status = accepted ? connection_->flush() : connection_->send_frame(frame, &accepted);
    if (!status.ok()) return lost(status);
    if (accepted && !connection_->wants_write()) break;
    if (Clock::now() >= deadline) return lost(Status::timeout("it takes no more requests"));
    sleep_on(connection_->fd(), true, deadline);
    RODA_RETURN_IF_ERROR(drain());  // it may be stuck sending to us
  }
  return {};
}

Status TcpStore::on_frame(const std::vector<std::uint8_t>& frame) {
  auto response = store_wire::parse_response(frame);
  if (!response) return Status::invalid("it sent a malformed answer");
  if (response->outcome == store_wire::Outcome::kError) {
    return Status::no_memory(roda::format("{} says: {}", connection_->peer(), response->value));
  }
  auto asked = asked_.find(response->id);
  if (asked == asked_.end()) return Status::invalid("it answered what was not asked");
  Pending& pending = pending_[asked->second];
  pending.arrived = true;
  pending.value = response->value;
  if (response->outcome == store_wire::Outcome::kFailed) pending.failure = store_wire::failure_of(response->value);
  asked_.erase(asked);
  return {};
}

Status TcpStore::drain() {
  if (!failure_.ok()) return failure_;
  std::vector<std::uint8_t> frame;
  bool received = true;
  while (true) {
    Status status = connection_->receive_frame(&frame, &received);
    if (status.ok() && !received) return {};
    if (status.ok()) status = on_frame(frame);
    if (!status.ok()) return lost(status);
    arrived_.notify_all();
  }
}

// Hands out the answer, or asks when nobody has yet.
Status TcpStore::take(const std::string& key, std::string* value, bool* found) {
  *found = false;
  auto at = pending_.find(key);
  if (at == pending_.end()) {
    std::uint32_t id = next_id_++;
    asked_.emplace(id, key);
    pending_.emplace(key, Pending());
    return send(static_cast<std::uint8_t>(store_wire::Op::kGet), key, "", id);
  }
  if (!at->second.arrived) return failure_;
  const Pending answer = std::move(at->second);
  pending_.erase(at);
  RODA_RETURN_IF_ERROR(answer.failure);
  *value = answer.value;
  *found = true;
  return {};
}

Status TcpStore::put(const std::string& key, std::string_view value) {
  std::lock_guard lock(mutex_);
  return send(static_cast<std::uint8_t>(store_wire::Op::kPut), key, value, 0);
}

Status TcpStore::put_if_absent(const std::string& key, std::string_view value) {
  std::lock_guard lock(mutex_);
  return send(static_cast<std::uint8_t>(store_wire::Op::kPutIfAbsent), key, value, 0);
}

Status TcpStore::remove(const std::string& key) {
  std::lock_guard lock(mutex_);
  return send(static_cast<std::uint8_t>(store_wire::Op::kRemove), key, "", 0);
}

Status TcpStore::clear(const std::string& prefix) {
  std::lock_guard lock(mutex_);
  return send(static_cast<std::uint8_t>(store_wire::Op::kClear), prefix, "", 0);
}

Status TcpStore::enter(const std::string& scope, int rank) {
  std::lock_guard lock(mutex_);
  return send(static_cast<std::uint8_t>(store_wire::Op::kEnter), scope, std::to_string(rank), 0);
}

Status TcpStore::leave(const std::string& scope, const Status& how) {
  std::lock_guard lock(mutex_);
  const std::string text = how.ok() ? "" : store_wire::text_of(how);
  return send(static_cast<std::uint8_t>(store_wire::Op::kLeave), scope, text, 0);
}

Status TcpStore::get(const std::string& key, std::string* value, bool* found) {
  std::lock_guard lock(mutex_);
  RODA_RETURN_IF_ERROR(take(key, value, found));
  if (*found || has_reader_) return {};  // the reader must not sleep through what another thread took
  RODA_RETURN_IF_ERROR(drain());
  return take(key, value, found);
}

Status TcpStore::wait(const std::string& key, Clock::time_point deadline, std::string* value) {
  std::unique_lock lock(mutex_);
  while (true) {
    bool found = false;
    RODA_RETURN_IF_ERROR(take(key, value, &found));
    if (found) return {};
    if (Clock::now() >= deadline) return wait_timed_out(key);
    if (has_reader_) {
      arrived_.wait_until(lock, deadline);
      continue;
    }
    has_reader_ = true;
    lock.unlock();
    sleep_on(connection_->fd(), false, deadline);
    lock.lock();
    has_reader_ = false;
    Status status = drain();
    arrived_.notify_all();  // somebody else may have to become the reader
    RODA_RETURN_IF_ERROR(status);
  }
}

}  // namespace roda

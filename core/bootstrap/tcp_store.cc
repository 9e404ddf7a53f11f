#include "core/bootstrap/tcp_store.h"

#include <poll.h>

#include <algorithm>

#include "plugins/base/format.h"
#include "plugins/base/socket.h"

namespace roda {

namespace {

using store_wire::Op;

// Sleeps until the connection can move on, the deadline at the latest.
void sleep_on(int fd, bool for_writing, Deadline deadline) {
  auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - Store::Clock::now());
  pollfd entry{fd, static_cast<short>(for_writing ? POLLIN | POLLOUT : POLLIN), 0};
  ::poll(&entry, 1, static_cast<int>(std::clamp<std::int64_t>(left.count(), 0, 1000)));
}

// An address that needs the name of a link is of no use elsewhere.
Store::Ends ends_of(int fd) {
  SocketAddress here, there;
  if (!tcp::ends_of(fd, &here, &there) || here.is_loopback() || here.is_link_local() || here.host() == there.host()) {
    return {};
  }
  return {here.host(), there.host()};
}

}  // namespace

TcpStore::TcpStore(std::unique_ptr<SecureConnection> connection, std::chrono::milliseconds timeout)
    : timeout_(timeout), ends_(ends_of(connection->fd())), connection_(std::move(connection)) {}

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

Status TcpStore::send(Op op, const std::string& key, std::string_view value, std::uint32_t id) {
  RODA_RETURN_IF_ERROR(check_sizes(key, value));
  if (!failure_.ok()) return failure_;
  auto frame = store_wire::encode(store_wire::Request{op, id, key, value});
  Deadline deadline = Clock::now() + timeout_;
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

Status TcpStore::ask_once(const Question& question, std::string* answer, bool* found) {
  *found = false;
  auto at = pending_.find(question);
  if (at == pending_.end()) {
    std::uint32_t id = next_id_++;
    asked_.emplace(id, question);
    pending_.emplace(question, Pending());
    return send(question.op, question.key, question.about, id);
  }
  if (!at->second.arrived) return failure_;
  Pending arrived = std::move(at->second);
  pending_.erase(at);
  RODA_RETURN_IF_ERROR(arrived.failure);
  *answer = std::move(arrived.value);
  *found = true;
  return {};
}

Status TcpStore::ask(const Question& question, std::string* answer, bool* found) {
  if (question.op != Op::kTakeAll) return ask_once(question, answer, found);
  std::string& gathered = gathered_[question.key];
  for (std::size_t whole = 0; whole == 0 || gathered.size() < whole; whole = store_wire::whole_length(gathered)) {
    std::string piece;
    const std::string about = roda::format("{} {}", question.about, gathered.size());
    RODA_RETURN_IF_ERROR(ask_once({question.op, question.key, about}, &piece, found));
    if (!*found) return {};
    gathered += piece;
  }
  *answer = std::move(gathered);
  gathered_.erase(question.key);
  return {};
}

Status TcpStore::unpack(std::string_view text, int count, std::vector<std::string>* values) {
  if (store_wire::values_of(text, values) && values->size() == static_cast<std::size_t>(count)) return {};
  const MutexLock lock(mutex_);
  return lost(Status::invalid("it sent a malformed gathering"));
}

Status TcpStore::try_once(const Question& question, std::string* answer, bool* found) {
  const MutexLock lock(mutex_);
  RODA_RETURN_IF_ERROR(ask(question, answer, found));
  if (*found || has_reader_) return {};  // the reader must not sleep through what another thread took
  RODA_RETURN_IF_ERROR(drain());
  return ask(question, answer, found);
}

Status TcpStore::wait_for(const Question& question, Deadline deadline, std::string* answer) {
  MutexLock lock(mutex_);
  while (true) {
    bool found = false;
    RODA_RETURN_IF_ERROR(ask(question, answer, &found));
    if (found) return {};
    if (Clock::now() >= deadline) return wait_timed_out(question.key);
    if (has_reader_) {
      arrived_.wait_until(lock.held(), deadline);
      continue;
    }
    has_reader_ = true;
    const int fd = connection_->fd();
    lock.unlock();
    sleep_on(fd, false, deadline);
    lock.lock();
    has_reader_ = false;
    Status status = drain();
    arrived_.notify_all();  // somebody else may have to become the reader
    RODA_RETURN_IF_ERROR(status);
  }
}

Status TcpStore::put(const std::string& key, std::string_view value) {
  const MutexLock lock(mutex_);
  return send(Op::kPut, key, value);
}

Status TcpStore::put_if_absent(const std::string& key, std::string_view value) {
  const MutexLock lock(mutex_);
  return send(Op::kPutIfAbsent, key, value);
}

Status TcpStore::enter(const std::string& scope, int rank) {
  const MutexLock lock(mutex_);
  return send(Op::kEnter, scope, std::to_string(rank));
}

Status TcpStore::leave(const std::string& scope, const Status& how) {
  const MutexLock lock(mutex_);
  return send(Op::kLeave, scope, how.ok() ? "" : store_wire::text_of(how));
}

Status TcpStore::give(const std::string& key, int rank, std::string_view value) {
  const MutexLock lock(mutex_);
  return send(Op::kGive, key, value, static_cast<std::uint32_t>(rank));
}

Status TcpStore::get(const std::string& key, std::string* value, bool* found) {
  return try_once({Op::kGet, key, ""}, value, found);
}

Status TcpStore::wait(const std::string& key, Deadline deadline, std::string* value) {
  return wait_for({Op::kGet, key, ""}, deadline, value);
}

Status TcpStore::take(const std::string& key, int rank, std::string* value, bool* found) {
  return try_once({Op::kTake, key, std::to_string(rank)}, value, found);
}

Status TcpStore::take_all(const std::string& key, int count, std::vector<std::string>* values, bool* found) {
  std::string text;
  RODA_RETURN_IF_ERROR(try_once({Op::kTakeAll, key, std::to_string(count)}, &text, found));
  return *found ? unpack(text, count, values) : Status();
}

Status TcpStore::wait_all(const std::string& key, int count, Deadline deadline, std::vector<std::string>* values) {
  std::string text;
  RODA_RETURN_IF_ERROR(wait_for({Op::kTakeAll, key, std::to_string(count)}, deadline, &text));
  return unpack(text, count, values);
}

int TcpStore::first_missing(const std::string& key, int count) {
  std::string answer;
  const Status status =
      wait_for({Op::kMissing, key, std::to_string(count)}, Clock::now() + std::chrono::seconds(1), &answer);
  return status.ok() ? std::atoi(answer.c_str()) : status.rank();
}

}  // namespace roda

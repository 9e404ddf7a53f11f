#include <poll.h>

#include <algorithm>
#include <compare>
#include <condition_variable>
#include <map>

#include "core/bootstrap/rendezvous.h"
#include "core/bootstrap/store_wire.h"
#include "plugins/base/format.h"
#include "plugins/base/mutex.h"
#include "plugins/base/secure_connection.h"
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

// Any thread. Losing the server is an error that stays and names it; there is no reconnecting.
class TcpStore : public Store {
 public:
  TcpStore(std::unique_ptr<SecureConnection> connection, std::chrono::milliseconds timeout)
      : timeout_(timeout), ends_(ends_of(connection->fd())), connection_(std::move(connection)) {}

  Ends ends() const override { return ends_; }

 protected:
  // Blocks only while the server takes nothing.
  Status tell(Op op, const std::string& key, std::string_view value, int rank) override {
    const MutexLock lock(mutex_);
    return send(op, key, value, static_cast<std::uint32_t>(rank));
  }

  Status ask(const Question& question, std::optional<Deadline> deadline, std::string* answer, bool* found) override {
    const Asked asked{question.op, question.key, question.op == Op::kGet ? "" : std::to_string(question.number)};
    return deadline ? wait_for(asked, *deadline, answer, found) : try_once(asked, answer, found);
  }

 private:
  struct Asked {
    Op op;
    std::string key;
    std::string about;
    auto operator<=>(const Asked&) const = default;
  };
  struct Pending {
    bool arrived = false;
    std::string value;
    Status failure;
  };

  Status send(Op op, const std::string& key, std::string_view value, std::uint32_t id = 0) RODA_REQUIRES(mutex_) {
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

  // Hands out the answer, or asks when nobody has yet.
  Status ask_once(const Asked& question, std::string* answer, bool* found) RODA_REQUIRES(mutex_) {
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

  // The same, and of kTakeAll the whole text.
  Status ask_all(const Asked& question, std::string* answer, bool* found) RODA_REQUIRES(mutex_) {
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

  // Asks once more after a look at what has come.
  Status try_once(const Asked& question, std::string* answer, bool* found) {
    const MutexLock lock(mutex_);
    RODA_RETURN_IF_ERROR(ask_all(question, answer, found));
    if (*found || has_reader_) return {};  // the reader must not sleep through what another thread took
    RODA_RETURN_IF_ERROR(drain());
    return ask_all(question, answer, found);
  }

  // Asks until there is an answer.
  Status wait_for(const Asked& question, Deadline deadline, std::string* answer, bool* found) {
    MutexLock lock(mutex_);
    while (true) {
      RODA_RETURN_IF_ERROR(ask_all(question, answer, found));
      if (*found || Clock::now() >= deadline) return {};
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

  Status drain() RODA_REQUIRES(mutex_) {
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

  Status on_frame(const std::vector<std::uint8_t>& frame) RODA_REQUIRES(mutex_) {
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

  Status lost(const Status& cause) RODA_REQUIRES(mutex_) {
    if (failure_.ok()) {
      failure_ = Status(cause.code(), roda::format("lost the rendezvous: {}", cause.message()));
      arrived_.notify_all();
    }
    return failure_;
  }

  std::chrono::milliseconds timeout_;
  const Ends ends_;
  Mutex mutex_;
  std::condition_variable arrived_;
  bool has_reader_ RODA_GUARDED_BY(mutex_) = false;  // a waiting thread sleeps on the descriptor on behalf of all
  const std::unique_ptr<SecureConnection> connection_ RODA_PT_GUARDED_BY(mutex_);
  std::map<Asked, Pending> pending_ RODA_GUARDED_BY(mutex_);             // asked for and not yet handed out
  std::map<std::uint32_t, Asked> asked_ RODA_GUARDED_BY(mutex_);         // by id, until answered
  std::map<std::string, std::string> gathered_ RODA_GUARDED_BY(mutex_);  // by key: what has come of all values
  std::uint32_t next_id_ RODA_GUARDED_BY(mutex_) = 1;
  Status failure_ RODA_GUARDED_BY(mutex_);
};

}  // namespace

Status connect_store(const std::string& host, int port, const Secret& secret, std::chrono::milliseconds timeout,
                     std::unique_ptr<Store>* store) {
  std::vector<SocketAddress> addresses;
  RODA_RETURN_IF_ERROR(resolve(host, port, &addresses));
  const ConnectionOptions options{
      .service = store_wire::kService, .max_frame = store_wire::kMaxFrame, .handshake_timeout = timeout};
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
  *store = std::make_unique<TcpStore>(std::move(connection), timeout);
  return {};
}

}  // namespace roda

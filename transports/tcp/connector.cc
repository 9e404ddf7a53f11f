#include "transports/tcp/connector.h"

#include <sys/eventfd.h>
#include <sys/socket.h>

#include <span>
#include <utility>

#include "plugins/base/socket.h"
#include "transports/tcp/context.h"
#include "transports/tcp/group.h"

namespace roda::tcp_transport {
namespace {

constexpr std::chrono::seconds kSilence{30};  // where the group has no limit of its own
// Connections of others that are not a lane yet; beyond it the oldest gives way.
constexpr std::size_t kMostStrangers = 256;

// A peer takes a connection when it comes round to it: the limit is that on the message.
ConnectionOptions options(std::uint64_t timeout_ns) {
  ConnectionOptions options;
  options.service = kService;
  options.handshake_timeout = std::chrono::hours(24);
  options.silence =
      timeout_ns == 0 ? std::chrono::milliseconds(kSilence) : std::chrono::milliseconds(timeout_ns / 1'000'000);
  return options;
}

bool lacks_descriptors() { return !UniqueFd(::eventfd(0, EFD_CLOEXEC)); }

}  // namespace

// A connection that is on its way to be one of a group's. The end that connected says who it is and which lane this is;
// the other answers when it takes the connection.
//
// One thread at a time.
class Attempt final : public Watched {
 public:
  // `group` null: somebody connected to us, and says later who it is.
  Attempt(Connector& connector, std::unique_ptr<SecureConnection> attempted, Group* with, int peer, const Hello& own)
      : group(with), rank(peer), hello(own), connector_(connector), connection_(std::move(attempted)) {
    connector_.context().watch(connection_->fd(), *this);
    await(is_ours());
    connector_.note_news();
  }
  ~Attempt() { end(); }

  enum class Outcome : std::uint8_t { kUnfinished, kReady, kFailed };
  // kReady: the peer has taken it; of one that is not ours: its hello is here. *why: of a failure.
  Outcome step(Status* why) {
    *why = connection_->test(&is_proved_);
    if (!why->ok()) return Outcome::kFailed;
    if (!is_proved_) return Outcome::kUnfinished;
    if (!has_hello_) {
      has_hello_ = is_ours() ? write(&hello, sizeof hello) : read(&hello, sizeof hello);
      if (has_hello_) done_ = 0;
      if (has_hello_ && hello.magic != kMagic) is_broken_ = true;
    }
    const bool is_ready = has_hello_ && !is_broken_ && (!is_ours() || read(&answer_, sizeof answer_));
    if (!is_broken_ && (!is_ready || !is_ours() || answer_ == kMagic)) {
      return is_ready ? Outcome::kReady : Outcome::kUnfinished;
    }
    *why = Status(RODA_ERR_PEER, peer() + " closed the connection");
    return Outcome::kFailed;
  }
  // Answers an attempt of the peer's that is ready. False: the connection is broken.
  bool welcome() {
    // There is room for so little on a connection that nothing was written on.
    return write(&kMagic, sizeof kMagic);
  }
  // For its lane. It is over then.
  UniqueFd release() {
    connector_.context().unwatch(connection_->fd());
    UniqueFd fd = connection_->release();
    connection_.reset();
    await(false);
    return fd;
  }
  // Closes it, unless it is over.
  void end() {
    if (is_over()) return;
    if (connection_->fd() >= 0 && !is_forked_child()) connector_.context().unwatch(connection_->fd());
    connection_.reset();
    await(false);
  }
  // Gives up an attempt of ours, because the peer's is used. It goes on until the peer, who knows that too, closes it:
  // only strangers give up in the middle of the proof.
  void give_up() {
    is_given_up_ = true;
    await(false);
  }
  bool is_given_up() const { return is_given_up_; }

  void on_event(std::uint32_t) override {
    has_news = true;
    connector_.note_news();
  }
  bool is_ours() const { return group != nullptr; }
  // The other end is a process of the job: where it closes the connection, it has ended.
  bool is_proved() const { return is_proved_; }
  bool is_over() const { return connection_ == nullptr; }
  const std::string& peer() const { return connection_->peer(); }

  Group* const group;
  const int rank;  // of the peer, of one that is ours
  Hello hello;
  bool has_news = true;

 private:
  bool write(const void* data, std::size_t bytes) {
    const std::span all(static_cast<const std::uint8_t*>(data), bytes);
    std::size_t count = 0;
    is_broken_ = !tcp::write_some(connection_->fd(), all.subspan(done_), &count).ok();
    done_ += count;
    return !is_broken_ && done_ == bytes;
  }
  bool read(void* data, std::size_t bytes) {
    const std::span all(static_cast<std::uint8_t*>(data), bytes);
    std::size_t count = 0;
    bool end = false;
    is_broken_ = !tcp::read_some(connection_->fd(), all.subspan(done_), &count, &end).ok() || end;
    done_ += count;
    return !is_broken_ && done_ == bytes;
  }
  void await(bool wanted) {
    if (wanted == is_awaited_) return;
    is_awaited_ = wanted;
    connector_.context().await_events(wanted ? 1 : -1);
  }

  Connector& connector_;
  std::unique_ptr<SecureConnection> connection_;
  std::uint32_t answer_ = 0;
  std::size_t done_ = 0;  // bytes of what is being written or read
  bool is_proved_ = false;
  bool has_hello_ = false;
  bool is_broken_ = false;
  bool is_given_up_ = false;
  bool is_awaited_ = false;
};

Connector::Connector(Context& context) : context_(context) { sdk::expect_ok(fill_random(key_), "tcp"); }

Connector::~Connector() {
  for (const Listener& listener : listeners_) {
    if (listener.fd && !is_forked_child()) context_.unwatch(listener.fd.get());
  }
}

SocketAddress Connector::listen(bool one_host, const std::string& known) {
  Listener& kept = listeners_[one_host ? 1 : 0];
  if (kept.fd) return kept.address;
  Listener listener;
  Status status = Status::unavailable("no address to listen on");
  for (const SocketAddress& address : context_.addresses(one_host, known)) {
    status = tcp::listen_on(address, &listener.fd, &listener.address);
    if (status.ok()) break;
  }
  sdk::expect_ok(status, "tcp");
  listener.guard = ForkGuard(listener.fd.get());
  context_.watch(listener.fd.get(), *this);
  kept = std::move(listener);
  return kept.address;
}

void Connector::connect(Group& group, Peer& peer, const Secret& key) {
  for (std::uint32_t lane = 0; lane < peer.lanes.size(); ++lane) {
    std::unique_ptr<SecureConnection> connection;
    const Status status =
        SecureConnection::connect({peer.where}, key, options(group.state().timeout_ns()), &connection);
    if (!status.ok() && lacks_descriptors()) {
      give_up(status);
      group.state().throw_if_broken();
    }
    if (!status.ok()) return group.lose(peer, status);
    Hello hello;
    hello.group = group.id();
    hello.rank = group.state().rank();
    hello.lane = lane;
    hello.contact = group.own();
    attempts_.emplace_back(*this, std::move(connection), &group, peer.rank, hello);
  }
}

void Connector::reconsider() {
  for (Attempt& attempt : attempts_) attempt.has_news = attempt.has_news || !attempt.is_ours();
  has_news_ = true;
}

void Connector::forget(Group& group) {
  for (Attempt& attempt : attempts_) {
    if (attempt.group == &group) attempt.end();
  }
}

void Connector::accept_all(Listener& listener) {
  while (listener.fd) {
    UniqueFd fd;
    SocketAddress peer;
    if (const Status status = tcp::accept_one(listener.fd.get(), &fd, &peer); !status.ok()) return give_up(status);
    if (!fd) return;
    std::unique_ptr<SecureConnection> connection;
    if (!SecureConnection::accept(std::move(fd), peer, Secret(key_), options(0), &connection).ok()) continue;
    attempts_.emplace_back(*this, std::move(connection), nullptr, -1, Hello());
    const auto is_stranger = [](const Attempt& a) { return !a.is_over() && !a.is_ours(); };
    if (static_cast<std::size_t>(std::count_if(attempts_.begin(), attempts_.end(), is_stranger)) >
        kMostStrangers + context_.most_lanes()) {
      std::find_if(attempts_.begin(), attempts_.end(), is_stranger)->end();
    }
  }
}

// Its peers would wait out their time, and name somebody who waits as they do.
void Connector::give_up(const Status& why) {
  context_.fail_all(lacks_descriptors() ? "has no free file descriptors: raise ulimit -n"
                                        : "can't take connections: " + why.message());
}

int Connector::progress() {
  if (!std::exchange(has_news_, false)) return 0;
  if (std::exchange(is_knocked_, false)) {
    for (Listener& listener : listeners_) accept_all(listener);
  }
  int handled = 0;
  for (Attempt& attempt : attempts_) {
    if (!attempt.is_over() && std::exchange(attempt.has_news, false) && step(attempt)) ++handled;
  }
  attempts_.remove_if([](const Attempt& attempt) { return attempt.is_over(); });
  return handled;
}

// True when it is over.
bool Connector::step(Attempt& attempt) {
  Status why;
  switch (attempt.step(&why)) {
    case Attempt::Outcome::kUnfinished:
      return false;
    case Attempt::Outcome::kReady:
      if (!attempt.is_ours()) return take(attempt);
      keep(attempt, attempt.group->peer(attempt.rank));
      return true;
    case Attempt::Outcome::kFailed:
      break;
  }
  Group* const group = attempt.is_given_up() ? nullptr : attempt.group;
  const bool is_strangers = !attempt.is_ours() && !attempt.is_proved();
  if (is_strangers && (++refused_ <= 100 || std::has_single_bit(refused_))) {  // a flood must not fill the log
    context_.log(RODA_LOG_WARNING,
                 "the " + std::to_string(refused_) + ". connection that was refused: " + why.message());
  }
  attempt.end();
  if (group != nullptr) group->lose(group->peer(attempt.rank), why);
  return true;
}

// Takes the connection of a peer that has said who it is. An attempt that can't be decided about stays; its end is
// noticed where it is used.
bool Connector::take(Attempt& attempt) {
  const Hello& hello = attempt.hello;
  Group* const group = context_.find(hello.group);
  if (group != nullptr && !group->state().is_formed() && !group->state().is_broken()) return false;
  const bool is_peer = group != nullptr && group->state().is_peer(hello.rank);
  if (!is_peer || !group->expects_lane(hello.rank, hello.contact, hello.lane)) {
    attempt.end();
    return true;
  }
  for (Attempt& own : attempts_) {
    if (own.is_over() || own.is_given_up() || own.group != group || own.rank != hello.rank ||
        own.hello.lane != hello.lane)
      continue;
    if (group->state().rank() < hello.rank) return false;
    own.give_up();
  }
  if (attempt.welcome()) {
    keep(attempt, group->peer(hello.rank));
  } else {
    attempt.end();
  }
  return true;
}

void Connector::keep(Attempt& attempt, Peer& peer) {
  const std::uint32_t lane = attempt.hello.lane;
  UniqueFd fd = attempt.release();
  // What the peer tried at the same time is in vain.
  for (Attempt& other : attempts_) {
    if (other.is_over() || other.is_ours() || other.hello.rank != peer.rank || other.hello.lane != lane) continue;
    if (other.hello.group == peer.group->id()) other.end();
  }
  try {
    tcp::unpace_if_local(fd.get());
    peer.group->take(peer, lane, std::move(fd));
  } catch (const sdk::Failure& failure) {
    peer.group->fail(failure);
  }
}

}  // namespace roda::tcp_transport

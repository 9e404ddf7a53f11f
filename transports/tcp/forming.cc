#include "transports/tcp/forming.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <utility>

#include "plugins/base/hmac.h"
#include "plugins/base/local_address.h"
#include "plugins/base/socket.h"
#include "transports/tcp/attempt.h"
#include "transports/tcp/context.h"

namespace roda::tcp_transport {

namespace {

constexpr std::chrono::milliseconds kStrangersPatience{10'000};
constexpr std::chrono::hours kNoLimit{24};
constexpr std::chrono::seconds kSilence{30};  // where the group has no limit of its own
// Connections that have proved nothing yet; beyond it the oldest gives way.
constexpr std::size_t kMostStrangers = 256;

void expect_ok(const Status& status) {
  if (!status.ok()) throw sdk::Failure(status.code(), "tcp: " + status.message(), status.rank());
}

}  // namespace

Forming::Forming(Context& context, const roda_group_desc& desc, const sdk::GroupState& state)
    : context_(context),
      desc_(desc),
      state_(state),
      cards_(desc.exchange, desc.rank, desc.size, "tcp.card"),
      addresses_(desc.exchange, desc.rank, desc.size, "tcp.address"),
      links_(static_cast<std::size_t>(desc.size)) {
  expect_ok(fill_random(own_.key));
  own_.lanes = static_cast<std::uint32_t>(context.settings().lanes);
  own_.eager_bytes = context.settings().eager_bytes;
  own_.window_bytes = context.settings().window_bytes;
  const std::string host = loopback_identity();
  std::copy_n(host.begin(), std::min(host.size(), own_.host.size()), own_.host.begin());
  cards_.start(&own_, sizeof own_);
  context.await_events(1);
}

Forming::~Forming() {
  context_.await_events(-1);
  if (listener_ && !is_forked_child()) context_.unwatch(listener_.get());
}

Card Forming::card(int rank) const {
  Card card;
  std::memcpy(&card, cards_.value(rank), sizeof card);
  return card;
}

std::uint32_t Forming::lanes_with(int rank) const {
  return rank == desc_.rank ? 0 : std::min(card(rank).lanes, own_.lanes);
}

ConnectionOptions Forming::options() const {
  const std::chrono::milliseconds limit(desc_.timeout_ns / 1'000'000);
  ConnectionOptions options;
  options.service = kService;
  options.handshake_timeout = desc_.timeout_ns == 0 ? std::chrono::milliseconds(kNoLimit) : limit;
  options.silence = desc_.timeout_ns == 0 ? std::chrono::milliseconds(kSilence) : limit;
  return options;
}

bool Forming::step() {
  if (phase_ == Phase::kCards) {
    if (!cards_.test()) return false;
    read_cards();
    make_secret();
    phase_ = Phase::kListen;
  }
  if (phase_ == Phase::kListen) {
    if (!listen()) return false;
    phase_ = Phase::kAddresses;
  }
  if (phase_ == Phase::kAddresses) {
    if (!addresses_.test()) return false;
    dial_all();
    phase_ = Phase::kConnect;
  }
  progress();
  return phase_ == Phase::kDone;
}

void Forming::read_cards() {
  for (int rank = 0; rank < desc_.size; ++rank) {
    const Card theirs = card(rank);
    if (theirs.magic != kMagic || theirs.version != kWireVersion || theirs.lanes == 0 || theirs.lanes > kMostLanes) {
      throw sdk::Failure(RODA_ERR_PRECONDITION,
                         "tcp: " + state_.describe(rank) + " runs another version of this plugin",
                         state_.world_rank(rank));
    }
    one_host_ = one_host_ && theirs.host == own_.host;
    links_[static_cast<std::size_t>(rank)].resize(lanes_with(rank));
    links_missing_ += lanes_with(rank);
  }
}

void Forming::make_secret() {
  std::vector<std::uint8_t> keys;
  for (int rank = 0; rank < desc_.size; ++rank) {
    const Card theirs = card(rank);
    keys.insert(keys.end(), theirs.key.begin(), theirs.key.end());
  }
  const std::string purpose = std::string("roda tcp ") + std::to_string(desc_.generation) + " " + state_.name();
  Digest digest;
  const Bytes text(reinterpret_cast<const std::uint8_t*>(purpose.data()), purpose.size());
  expect_ok(hmac_sha256(keys, {text}, &digest));
  secret_ = Secret(digest);
  explicit_bzero(keys.data(), keys.size());
  explicit_bzero(digest.data(), digest.size());
}

bool Forming::listen() {
  const auto candidates = context_.addresses(one_host_);
  if (!candidates.has_value()) return false;
  Status status = Status::unavailable("no address to listen on");
  SocketAddress bound;
  for (const SocketAddress& address : *candidates) {
    status = tcp::listen_on(address, &listener_, &bound);
    if (status.ok()) break;
  }
  expect_ok(status);
  listener_guard_ = ForkGuard(listener_.get());
  context_.watch(listener_.get(), *this);
  Published published;
  published.length = bound.length;
  published.storage = bound.storage;
  addresses_.start(&published, sizeof published);
  return true;
}

void Forming::dial_all() {
  for (int rank = 0; rank < desc_.rank; ++rank) {
    Published published;
    std::memcpy(&published, addresses_.value(rank), sizeof published);
    SocketAddress address;
    address.length = std::min<std::uint32_t>(published.length, sizeof published.storage);
    address.storage = published.storage;
    for (std::uint32_t lane = 0; lane < lanes_with(rank); ++lane) {
      std::unique_ptr<SecureConnection> connection;
      const Status status = SecureConnection::connect({address}, secret_, options(), &connection);
      if (!status.ok()) throw unreachable(rank, status);
      attempts_.emplace_back(*this, std::move(connection), rank, lane);
    }
  }
  has_news_ = true;
}

// By those after us, and by strangers.
void Forming::accept_all() {
  ConnectionOptions patient = options();
  patient.handshake_timeout = std::min(patient.handshake_timeout, kStrangersPatience);
  while (true) {
    UniqueFd fd;
    SocketAddress peer;
    expect_ok(tcp::accept_one(listener_.get(), &fd, &peer));
    if (!fd) return;
    std::unique_ptr<SecureConnection> connection;
    if (!SecureConnection::accept(std::move(fd), peer, secret_, patient, &connection).ok()) continue;
    attempts_.emplace_back(*this, std::move(connection), -1, 0);
    const auto is_stranger = [](const Attempt& a) { return a.rank < 0; };
    if (static_cast<std::size_t>(std::count_if(attempts_.begin(), attempts_.end(), is_stranger)) >
        kMostStrangers + links_missing_) {
      attempts_.erase(std::find_if(attempts_.begin(), attempts_.end(), is_stranger));
    }
  }
}

int Forming::progress() {
  if (!std::exchange(has_news_, false)) return 0;
  if (listener_ && std::exchange(is_knocked_, false)) accept_all();
  const int handled = step_attempts();
  if (phase_ == Phase::kConnect && links_missing_ == 0) finish();
  return handled;
}

int Forming::step_attempts() {
  int handled = 0;
  for (auto at = attempts_.begin(); at != attempts_.end();) {
    const bool is_over = std::exchange(at->has_news, false) && step_attempt(*at);
    at = is_over ? attempts_.erase(at) : std::next(at);
    handled += is_over ? 1 : 0;
  }
  return handled;
}

// True when it has become a link, or nothing.
bool Forming::step_attempt(Attempt& attempt) {
  bool ready = false;
  const Status status = attempt.connection->test(&ready);
  if (status.ok()) return ready && step_hello(attempt);
  if (attempt.is_ours()) throw unreachable(attempt.rank, status);
  context_.log(RODA_LOG_WARNING, "while " + state_.label() + " forms: " + status.message());
  return true;
}

bool Forming::step_hello(Attempt& attempt) {
  const HelloEnd end = attempt.is_ours() ? attempt.send_hello(desc_.rank) : attempt.receive_hello();
  if (end == HelloEnd::kUnfinished) return false;
  const int rank = attempt.is_ours() ? attempt.rank : attempt.hello.rank;
  const std::uint32_t lane = attempt.hello.lane;
  const bool is_right = end == HelloEnd::kDone && rank >= 0 && rank < desc_.size && lane < lanes_with(rank) &&
                        (attempt.is_ours() || rank > desc_.rank) && !links_[static_cast<std::size_t>(rank)][lane].fd;
  if (is_right) {
    keep(attempt, rank, lane);
  } else if (attempt.is_ours()) {
    throw unreachable(rank, Status(RODA_ERR_PEER, attempt.connection->peer() + " closed the connection"));
  }
  return true;
}

// Of this end: what it sends is paced by it.
void Forming::choose_congestion(int fd) const {
  const std::string& name = context_.settings().congestion;
  if (name.empty()) return tcp::unpace_if_local(fd);
  if (::setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, name.data(), static_cast<socklen_t>(name.size())) == 0) return;
  const int error = errno;
  std::string offered;
  std::getline(std::ifstream("/proc/sys/net/ipv4/tcp_available_congestion_control"), offered);
  throw sdk::Failure(RODA_ERR_UNAVAILABLE, "tcp: RODA_TCP_CONGESTION=" + name + ": " + std::strerror(error) +
                                               "; this kernel offers: " + offered);
}

void Forming::keep(Attempt& attempt, int rank, std::uint32_t lane) {
  choose_congestion(attempt.connection->fd());
  context_.unwatch(attempt.connection->fd());
  Link& link = links_[static_cast<std::size_t>(rank)][lane];
  link.address = attempt.connection->peer();
  link.fd = attempt.connection->release();
  link.guard = ForkGuard(link.fd.get());
  --links_missing_;
}

void Forming::finish() {
  attempts_.clear();
  if (listener_) context_.unwatch(listener_.get());
  listener_guard_ = ForkGuard();
  listener_.reset();
  phase_ = Phase::kDone;
}

UniqueFd Forming::take(int rank, std::uint32_t lane, std::string* address) {
  Link& link = links_[static_cast<std::size_t>(rank)][lane];
  *address = link.address;
  link.guard = ForkGuard();
  return std::move(link.fd);
}

std::vector<int> Forming::missing() const {
  if (phase_ == Phase::kCards) return {cards_.waiting_for()};
  if (phase_ == Phase::kAddresses) return {addresses_.waiting_for()};
  std::vector<int> ranks;
  for (int rank = 0; rank < desc_.size; ++rank) {
    const auto& lanes = links_[static_cast<std::size_t>(rank)];
    if (std::any_of(lanes.begin(), lanes.end(), [](const Link& link) { return !link.fd; })) ranks.push_back(rank);
  }
  return ranks;
}

sdk::Failure Forming::unreachable(int rank, const Status& why) const {
  return {RODA_ERR_PEER,
          "tcp: no connection to " + state_.describe(rank) + ": " + why.message() +
              ". On hosts with several networks, RODA_TCP_IFACE names the interface to use",
          state_.world_rank(rank)};
}

}  // namespace roda::tcp_transport

#include "transports/tcp/attempt.h"

#include <span>
#include <utility>

#include "plugins/base/fork_guard.h"
#include "plugins/base/socket.h"
#include "transports/tcp/connector.h"
#include "transports/tcp/context.h"

namespace roda::tcp_transport {

Attempt::Attempt(Connector& connector, std::unique_ptr<SecureConnection> attempted, Group* with, int peer,
                 const Hello& own)
    : group(with), rank(peer), hello(own), connector_(connector), connection_(std::move(attempted)) {
  connector_.context().watch(connection_->fd(), *this);
  await(is_ours());
  connector_.note_news();
}

void Attempt::await(bool wanted) {
  if (wanted == is_awaited_) return;
  is_awaited_ = wanted;
  connector_.context().await_events(wanted ? 1 : -1);
}

void Attempt::give_up() {
  is_given_up_ = true;
  await(false);
}

void Attempt::end() {
  if (is_over()) return;
  if (connection_->fd() >= 0 && !is_forked_child()) connector_.context().unwatch(connection_->fd());
  connection_.reset();
  await(false);
}

UniqueFd Attempt::release() {
  connector_.context().unwatch(connection_->fd());
  UniqueFd fd = connection_->release();
  connection_.reset();
  await(false);
  return fd;
}

void Attempt::on_event(std::uint32_t) {
  has_news = true;
  connector_.note_news();
}

bool Attempt::write(const void* data, std::size_t bytes) {
  const std::span all(static_cast<const std::uint8_t*>(data), bytes);
  std::size_t count = 0;
  is_broken_ = !tcp::write_some(connection_->fd(), all.subspan(done_), &count).ok();
  done_ += count;
  return !is_broken_ && done_ == bytes;
}

bool Attempt::read(void* data, std::size_t bytes) {
  const std::span all(static_cast<std::uint8_t*>(data), bytes);
  std::size_t count = 0;
  bool end = false;
  is_broken_ = !tcp::read_some(connection_->fd(), all.subspan(done_), &count, &end).ok() || end;
  done_ += count;
  return !is_broken_ && done_ == bytes;
}

Attempt::Outcome Attempt::step(Status* why) {
  bool is_proved = false;
  *why = connection_->test(&is_proved);
  if (!why->ok()) return Outcome::kFailed;
  if (!is_proved) return Outcome::kUnfinished;
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

bool Attempt::welcome() {
  // There is room for so little on a connection that nothing was written on.
  return write(&kMagic, sizeof kMagic);
}

}  // namespace roda::tcp_transport

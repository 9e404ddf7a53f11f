#include "transports/tcp/attempt.h"

#include <span>
#include <utility>

#include "plugins/base/socket.h"
#include "transports/tcp/context.h"
#include "transports/tcp/forming.h"

namespace roda::tcp_transport {

Attempt::Attempt(Forming& forming, std::unique_ptr<SecureConnection> attempted, int peer, std::uint32_t lane)
    : rank(peer), connection(std::move(attempted)), forming_(forming) {
  hello.lane = lane;
  forming_.context().watch(connection->fd(), *this);
  forming_.note_news();
}

Attempt::~Attempt() {
  if (connection->fd() >= 0 && !is_forked_child()) forming_.context().unwatch(connection->fd());
}

void Attempt::on_event(std::uint32_t) {
  has_news = true;
  forming_.note_news();
}

HelloEnd Attempt::send_hello(int own_rank) {
  hello.rank = own_rank;
  const std::span all(reinterpret_cast<const std::uint8_t*>(&hello), sizeof hello);
  std::size_t count = 0;
  if (!tcp::write_some(connection->fd(), all.subspan(hello_bytes_), &count).ok()) return HelloEnd::kFailed;
  hello_bytes_ += count;
  return hello_bytes_ == sizeof hello ? HelloEnd::kDone : HelloEnd::kUnfinished;
}

HelloEnd Attempt::receive_hello() {
  const std::span all(reinterpret_cast<std::uint8_t*>(&hello), sizeof hello);
  std::size_t count = 0;
  bool end = false;
  if (!tcp::read_some(connection->fd(), all.subspan(hello_bytes_), &count, &end).ok() || end) return HelloEnd::kFailed;
  hello_bytes_ += count;
  if (hello_bytes_ < sizeof hello) return HelloEnd::kUnfinished;
  return hello.magic == kMagic && hello.version == kWireVersion ? HelloEnd::kDone : HelloEnd::kFailed;
}

}  // namespace roda::tcp_transport

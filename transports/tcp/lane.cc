#include "transports/tcp/lane.h"

#include <sys/epoll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "transports/tcp/context.h"
#include "transports/tcp/messages.h"

namespace roda::tcp_transport {
namespace {

// One call reads or writes about this much at most, so that both directions and all peers have their turn.
constexpr std::size_t kBudget = 1 << 20;
constexpr int kPieces = 32;
// While more than a few bytes are expected, few are taken together with a header: those are copied once more.
constexpr std::size_t kShortRead = 2 << 10;

}  // namespace

void Lane::connect(UniqueFd fd) {
  fd_ = std::move(fd);
  guard_ = ForkGuard(fd_.get());
  context_.watch(fd_.get(), *this);
  context_.mark_dirty(*this);
}

UniqueFd Lane::release() {
  is_closed_ = true;
  context_.forget(*this);
  if (!fd_) return {};
  set_blocked(false);
  if (!is_forked_child()) context_.unwatch(fd_.get());
  guard_ = ForkGuard();
  drop_payload();
  return std::move(fd_);
}

void Lane::on_event(std::uint32_t events) {
  const auto broken = static_cast<std::uint32_t>(EPOLLRDHUP | EPOLLHUP | EPOLLERR);
  if ((events & broken) != 0) is_ending_ = true;
  if ((events & (EPOLLIN | broken)) != 0) context_.mark_readable(*this);
  if ((events & (EPOLLOUT | broken)) != 0 && is_blocked_) {
    set_blocked(false);
    context_.mark_dirty(*this);
  }
}

void Lane::set_blocked(bool blocked) {
  if (blocked == is_blocked_) return;
  is_blocked_ = blocked;
  context_.await_events(blocked ? 1 : -1);
}

int Lane::read() {
  int handled = 0;
  std::size_t budget = kBudget;
  while (fd_) {
    const std::size_t direct = target_ != nullptr ? left_ : 0;
    const std::size_t staged = peer_.expects_data() ? kShortRead : Context::kScratchBytes;
    iovec pieces[2] = {{target_, direct}, {context_.scratch(), staged}};
    const ssize_t got = direct > 0 ? ::readv(fd_.get(), pieces, 2) : ::recv(fd_.get(), pieces[1].iov_base, staged, 0);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0 && errno == EAGAIN) break;
    ++handled;
    if (got <= 0) {
      end(got < 0 ? errno : 0);
      break;
    }
    const auto bytes = static_cast<std::size_t>(got);
    peer_.bytes_in += bytes;
    const std::size_t placed = std::min(bytes, direct);
    if (placed > 0) {
      target_ += placed;
      left_ -= placed;
      if (left_ == 0) finish();
    }
    take(context_.scratch(), bytes - placed);
    if (bytes < direct + staged && !is_ending_) break;  // that was all
    if (bytes >= budget) {
      if (fd_) context_.mark_readable(*this);
      break;
    }
    budget -= bytes;
  }
  return handled;
}

void Lane::take(const std::byte* data, std::size_t bytes) {
  while (bytes > 0 && fd_) {
    std::size_t count = 0;
    if (!in_payload_) {
      count = std::min(bytes, sizeof(Header) - header_bytes_);
      std::memcpy(reinterpret_cast<std::byte*>(&arrival_.header) + header_bytes_, data, count);
      header_bytes_ += count;
      if (header_bytes_ == sizeof(Header)) begin();
    } else {
      count = std::min(bytes, left_);
      if (target_ != nullptr) {
        std::memcpy(target_, data, count);
        target_ += count;
      }
      left_ -= count;
      if (left_ == 0) finish();
    }
    data += count;
    bytes -= count;
  }
}

void Lane::begin() {
  header_bytes_ = 0;
  in_payload_ = true;
  left_ = arrival_.header.length;
  arrival_.request = nullptr;
  arrival_.unexpected = nullptr;
  target_ = messages_.begin_frame(*this, arrival_.header);
  if (left_ == 0) finish();
}

void Lane::finish() {
  in_payload_ = false;
  target_ = nullptr;
  messages_.finish_frame(*this, std::exchange(arrival_, Arrival()));
}

void Lane::end(int error) {
  if (peer_.end.error == 0) peer_.end.error = error;
  release().reset();
  messages_.lane_ended(*this);
}

int Lane::flush() {
  int moved = 0;
  std::size_t budget = kBudget;
  while (fd_ && !is_blocked_ && !cannot_write_) {
    messages_.refill(*this);
    if (outbox_.empty()) break;
    if (budget == 0) {
      context_.mark_dirty(*this);
      break;
    }
    iovec pieces[kPieces];
    msghdr message{};
    message.msg_iov = pieces;
    message.msg_iovlen = static_cast<std::size_t>(outbox_.gather(pieces, kPieces));
    std::size_t offered = 0;
    for (std::size_t i = 0; i < message.msg_iovlen; ++i) offered += pieces[i].iov_len;
    const ssize_t sent = ::sendmsg(fd_.get(), &message, MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent < 0 && errno != EAGAIN) {
      // What the peer sent before it broke is still to be read; the end of that says whether it had left.
      if (peer_.end.error == 0) peer_.end.error = errno;
      cannot_write_ = is_ending_ = true;
      context_.mark_readable(*this);
      break;
    }
    const std::size_t bytes = sent > 0 ? static_cast<std::size_t>(sent) : 0;
    if (bytes > 0) {
      ++moved;
      peer_.bytes_out += bytes;
      outbox_.advance(bytes, [&](const Frame& frame) { messages_.frame_written(frame); });
    }
    if (bytes < offered) set_blocked(true);
    budget -= std::min(budget, bytes);
  }
  return moved;
}

}  // namespace roda::tcp_transport

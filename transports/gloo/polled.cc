#include "transports/gloo/polled.h"

#include <gloo/transport/tcp/unbound_buffer.h>

#include <exception>
#include <mutex>

namespace roda::gloo {
namespace {

using TcpBuffer = ::gloo::transport::tcp::UnboundBuffer;

// Never made: a derived class may name the members, and what it names are members of the base.
struct Counters : TcpBuffer {
  static constexpr auto kMutex = &Counters::m_;
  static constexpr auto kSent = &Counters::sendCompletions_;
  static constexpr auto kReceived = &Counters::recvCompletions_;
  static constexpr auto kFailure = &Counters::ex_;
};

TcpBuffer& tcp(::gloo::transport::UnboundBuffer& buffer) { return static_cast<TcpBuffer&>(buffer); }

bool take(TcpBuffer& buffer, int TcpBuffer::*count) {
  const std::lock_guard lock(buffer.*Counters::kMutex);
  if (buffer.*count == 0) return false;
  --(buffer.*count);
  return true;
}

}  // namespace

bool take_sent(::gloo::transport::UnboundBuffer& buffer) { return take(tcp(buffer), Counters::kSent); }
bool take_received(::gloo::transport::UnboundBuffer& buffer) { return take(tcp(buffer), Counters::kReceived); }

void throw_if_failed(::gloo::transport::UnboundBuffer& buffer) {
  const std::lock_guard lock(tcp(buffer).*Counters::kMutex);
  if (tcp(buffer).*Counters::kFailure != nullptr) std::rethrow_exception(tcp(buffer).*Counters::kFailure);
}

}  // namespace roda::gloo

// One pending message of a group.
#pragma once

#include <cstddef>
#include <cstdint>
#include <roda/sdk/clock.hpp>
#include <roda/sdk/request_table.hpp>

namespace roda::tcp_transport {

struct Peer;

struct Request : sdk::PendingRequest {
  enum class Kind : std::uint8_t { kSend, kReceive };

  Kind kind = Kind::kSend;
  bool is_expected = false;   // counted in its peer's `expected`
  bool is_addressed = false;  // receive: the sender was told its id. send: the receive's id is known, or not needed
  bool is_matched = false;    // receive: the message's first frame came
  std::uint32_t frames = 0;   // send: waiting to be written
  Peer* peer = nullptr;
  std::size_t moved = 0;      // send: put into frames. receive: of which the frames have come
  std::size_t arrived = 0;    // receive
  std::uint64_t partner = 0;  // id of the other end's request; of a receive, 0 until a frame names it
  sdk::ProgressLimit limit;   // on its peer's traffic
};

}  // namespace roda::tcp_transport

// One pending operation of a group: a message, or a get or put on a window.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <roda/sdk/request_table.hpp>

#include "transports/verbs/memory.h"
#include "transports/verbs/settings.h"

namespace roda::verbs {

class Link;

struct Request : sdk::PendingRequest {
  enum class Kind : std::uint8_t { kSend, kReceive, kGet, kPut };
  static constexpr std::uint32_t kNoBounce = ~0u;

  Kind kind = Kind::kSend;
  bool is_moving = false;       // else it waits for the peer
  bool is_announced = false;    // send: the peer was told of it
  bool is_asked = false;        // receive: the peer was told where to write
  bool holds_signals = false;   // put: signals wait for it
  std::uint32_t remote_id = 0;  // send: of the peer's receive
  Link* link = nullptr;
  std::uint32_t bounce = kNoBounce;  // short data go by way of this place

  std::uint64_t address = 0;  // the peer's memory
  std::array<std::uint32_t, kMaxRails> keys{};
  int parts = 1;                // one for each rail in use
  int part = 0;                 // receive: those that have come; others: the next one to post
  std::size_t part_posted = 0;  // bytes of it
  std::uint32_t work_out = 0;   // posted and not ended

  const Registration* memory = nullptr;  // what covers the data: `own`, or memory known for longer
  Registration own;

  std::uint64_t moved_ns = 0;  // when it last went further
};

}  // namespace roda::verbs

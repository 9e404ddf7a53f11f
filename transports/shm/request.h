// One pending operation of a group: a message, or a get or put on a window.
#pragma once

#include <cstddef>
#include <cstdint>
#include <roda/sdk/clock.hpp>
#include <roda/sdk/request_table.hpp>

namespace roda::shm {

// Internal ones serve a peer's get or put.
struct Request : sdk::PendingRequest {
  enum class Kind : std::uint8_t { kSend, kRecv, kGet, kPut };
  enum class Step : std::uint8_t {
    kWaiting,    // for a record of the peer
    kPulling,    // we copy from the peer's memory
    kPushing,    // we copy into the peer's memory
    kStreaming,  // we feed the ring
  };

  Kind kind = Kind::kSend;
  Step step = Step::kWaiting;
  bool mapped = false;  // `remote` is an address in this process
  std::uint32_t remote_id = 0;
  int peer = 0;
  std::size_t moved = 0;
  std::uint64_t remote = 0;  // the peer's memory
  sdk::ProgressLimit limit;  // on `moved`
};

}  // namespace roda::shm

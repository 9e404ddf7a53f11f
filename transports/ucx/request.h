// One pending operation of a group.
#pragma once

#include <ucp/api/ucp.h>
#include <roda/sdk/error.hpp>

#include <cstddef>
#include <cstdint>

namespace roda::ucx {

struct Peer;

// Filled when it starts. UCX's callbacks count `in_ucx` down; until it is 0 UCX may touch the memory.
struct Request {
  enum class Kind : std::uint8_t { kSend, kReceive, kGet, kPut };

  Kind kind = Kind::kSend;
  std::uint8_t in_ucx = 0;  // callbacks that are still to come: a put has one for the flush behind it, too
  bool is_parked = false;   // a receive whose number on the wire is not known yet
  Peer* peer = nullptr;
  void* data = nullptr;
  std::size_t bytes = 0;
  ucp_mem_h memory = nullptr;  // the registration that it lies in, if that is known
  ucs_memory_type_t type = UCS_MEMORY_TYPE_HOST;
  std::uint64_t tag = 0;
  void* handle = nullptr;  // UCX's
  ucs_status_t status = UCS_OK;
  std::size_t received = 0;
  std::uint64_t seen_ns = 0;  // when a test last found its peer moving, 0: not looked yet
  std::uint64_t seen_moves = 0;
  std::size_t index = 0;  // among the group's live requests

  bool touches(const void* base, std::size_t length) const { return sdk::overlaps(data, bytes, base, length); }
};

}  // namespace roda::ucx

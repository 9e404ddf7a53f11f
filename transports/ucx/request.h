// One pending operation of a group.
#pragma once

#include <ucp/api/ucp.h>
#include <roda/sdk/clock.hpp>
#include <roda/sdk/request_table.hpp>

#include <cstddef>
#include <cstdint>

namespace roda::ucx {

struct Peer;

// Pending until UCX is through with it: UCX's callbacks count `in_ucx` down, and may touch the memory until it is 0.
struct Request : sdk::PendingRequest {
  enum class Kind : std::uint8_t { kSend, kReceive, kGet, kPut };

  Kind kind = Kind::kSend;
  std::uint8_t in_ucx = 0;  // callbacks that are still to come: a put has one for the flush behind it, too
  bool is_parked = false;   // a receive whose number on the wire is not known yet
  Peer* peer = nullptr;
  ucp_mem_h memory = nullptr;  // the registration that it lies in, if that is known
  ucs_memory_type_t type = UCS_MEMORY_TYPE_HOST;
  void* handle = nullptr;  // UCX's
  ucs_status_t status = UCS_OK;
  std::size_t received = 0;
  sdk::ProgressLimit limit;  // on its peer's events
};

}  // namespace roda::ucx

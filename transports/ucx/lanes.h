// Which transports carry an endpoint.
#pragma once

#include <ucp/api/ucp.h>

#include <string>

namespace roda::ucx {

// False when all that the connected endpoint uses hands data to a device or to the peer's memory at once; true when
// some of it may stay in this process until it makes progress (TCP, unreliable datagrams, anything unknown).
bool buffers_in_process(ucp_ep_h endpoint);

// The same of UCX's description of an endpoint.
bool buffers_in_process(const std::string& description);

}  // namespace roda::ucx
